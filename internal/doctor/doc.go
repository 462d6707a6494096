// Package doctor looks whether what a coordinator's database holds, and what the barriers of its participants hold,
// is as the rules say it must be: the invariants I-1 to I-15, as far as rows can tell.
//
// It only reads, in short transactions that are READ ONLY, and may run beside coordinators and participants at work.
// Transactions are looked at in pages of their ids, each page in one snapshot of the coordinator's database, so that
// no row is seen half changed and no old snapshot keeps the database from cleaning up. Barriers are read before the
// coordinator's rows: what a participant has recorded was decided before. What looks wrong is looked at again after a
// moment, and reported only if it still is: two databases have no common snapshot, and a message may be under way.
//
// What it cannot see: that replies are repeated (I-5), that retries stay within budget (I-13), what callers are shown
// (I-14), and effects outside of the participants' databases. I-3 shows only where user code keeps a journal, as the
// bank of the demonstration does.
package doctor
