package participant

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Commands that wait are carried out in one local transaction: a group. Nothing of a group is answered before it is
// committed (B5). A command whose end has to do with the group (it waited for a lock that others hold, it took too long,
// the transaction as a whole failed) is not answered from it but runs again by itself, as if there were no groups. See
// docs/adr/0015-groups.md.

// GroupMaxMax is the most that Config.GroupMax may be. Each command is a subtransaction, and a session of PostgreSQL
// has room for 64 before it slows others down.
const GroupMaxMax = 64

// groupLimits bound what the commands of a group have to wait for each other.
type groupLimits struct {
	atOnce  int           // groups at one time, each with a connection
	time    time.Duration // after it no other handler begins, and the group commits
	trips   int           // the same in round trips for each command, on a machine that is slow
	lock    time.Duration // for a lock: longer than a group, shorter than PostgreSQL waits before it looks for a deadlock
	slow    time.Duration // a handler that takes longer, and longer than slowFactor round trips, keeps its action out of groups
	handler time.Duration // one handler; then the group is given up
	apart   time.Duration // how long an action is kept out
}

var defaultGroupLimits = groupLimits{
	atOnce: 2, time: 100 * time.Millisecond, trips: 4, lock: 250 * time.Millisecond,
	slow: 50 * time.Millisecond, handler: time.Second, apart: time.Minute,
}

// patience is how long a group of so many commands may take before it commits what it has. On a machine that is slow
// everything takes longer, and groups are worth most.
func (l groupLimits) patience(members int, trip time.Duration) time.Duration {
	return max(l.time, min(time.Duration(l.trips*members)*trip, l.handler))
}

// slowFactor tells a slow handler from a machine that is slow.
const slowFactor = 20

// member is a command in a group.
type member struct {
	job   *job
	batch bool // its handler queues its statements

	span  func(saga.Reply, error) // ends the command's span; nil: not begun
	reply saga.Reply
	has   bool // reply is to be answered once the group is committed
	busy  bool // others were in the way
	apart bool // its action must not be in groups for a while

	message  bus.Message
	answered bool          // message is to be published; otherwise the command has to run by itself
	ended    chan struct{} // closed once that is known
}

// groupable reports whether a command may be in a group. What may end its process, waits for something outside of the
// database, or is not known to this program runs by itself.
func (p *Participant) groupable(j *job) bool {
	if j.bad != nil || j.cmd.Verb != saga.VerbExecute || j.suspect.is(j.cmd) {
		return false
	}
	h, ok := p.handler(j.cmd.Action)
	return ok && h.external == nil
}

// executeGroup carries out commands of different steps in one local transaction, and returns those that did not get their
// turn. An error says that nothing of the others is answered.
func (p *Participant) executeGroup(ctx context.Context, members []*member) (left []*member, err error) {
	sortMembers(members)
	g, err := p.barrier.group(ctx, p.groups.lock)
	if err != nil {
		return nil, err
	}
	defer g.abandon(ctx)
	defer func() { endSpans(members, err) }()
	began := time.Now()
	for i, m := range members {
		if i > 0 && time.Since(began) > p.groups.patience(len(members), g.trip()) {
			members, left = members[:i], members[i:]
			break
		}
		if err := p.executeMember(ctx, g, m); err != nil {
			return members[i+1:], err
		}
	}
	if err := g.commit(ctx); err != nil {
		return left, err
	}
	for _, m := range members {
		m.answer()
	}
	return left, nil
}

// answer makes the message of a reply that is committed. A command without one finds out by itself.
func (m *member) answer() {
	if !m.has {
		return
	}
	var err error
	m.message, err = wire.EncodeReply(m.reply, m.job.cmd.ReplyTo)
	m.answered = err == nil
}

// sortMembers puts commands into the order of their rows' keys.
func sortMembers(members []*member) {
	slices.SortFunc(members, func(a, b *member) int {
		x, y := &a.job.cmd, &b.job.cmd
		return cmp.Or(bytes.Compare(x.Transaction[:], y.Transaction[:]), strings.Compare(x.Step, y.Step), strings.Compare(x.Tenant, y.Tenant))
	})
}

// executeMember carries out one command of a group.
func (p *Participant) executeMember(ctx context.Context, g *groupEntry, m *member) (err error) {
	cmd := m.job.cmd
	p.hooks.reach(pointTaken, cmd)
	ctx, m.span = p.span(ctx, cmd)
	ok, err := g.enter(ctx, cmd)
	if err != nil || !ok {
		m.busy = true
		return err
	}
	switch g.entry.Verdict.Do {
	case saga.DoRun:
		return p.runMember(ctx, g, m)
	case saga.DoReply:
		m.reply, m.has = g.entry.Verdict.Reply, true
		if g.entry.Verdict.Store {
			g.keep()
			return nil
		}
	case saga.DoInquire, saga.DoVoid: // external effects run by themselves
	}
	return g.undo(ctx)
}

var errRunsAlone = errors.New("participant: the command could not be carried out in a group, and runs by itself")

func endSpans(members []*member, err error) {
	for _, m := range members {
		switch {
		case m.span == nil:
		case m.answered:
			m.span(m.reply, nil)
		default:
			m.span(saga.Reply{}, cmp.Or(err, errRunsAlone))
		}
		m.span = nil
	}
}

// runMember calls the user code of a command of a group, and concludes it.
func (p *Participant) runMember(ctx context.Context, g *groupEntry, m *member) (err error) {
	cmd, e := m.job.cmd, g.entry
	h, body, ran := p.check(e, cmd)
	if ran.Outcome == "" {
		began, guard := time.Now(), e.tx.guard
		ran, err = p.call(ctx, e, h, cmd, body, min(p.cfg.HandlerTimeout, p.groups.handler))
		took := time.Since(began)
		m.apart = took > p.groups.slow && took > slowFactor*g.trip() && !guard.busy
		if err == nil && e.transactionOver() {
			m.apart = true
			err = errGroupOver
		}
		if err != nil {
			return err
		}
		p.hooks.reach(pointRan, cmd)
		m.busy = guard.busy
		if guard.busy || ran.Code == CodeTimeout { // alone it has more time
			return g.undo(ctx)
		}
	}
	m.reply, m.has, err = g.conclude(ctx, ran)
	m.busy = m.busy || !m.has
	return err
}

// transactionOver reports whether user code has ended the transaction or lost the connection.
func (e *Entry) transactionOver() bool {
	if e.over() || e.conn.Conn().IsClosed() {
		return true
	}
	return e.conn.Conn().PgConn().TxStatus() == 'I'
}

// logGroup says why a group was not committed.
func (p *Participant) logGroup(ctx context.Context, commands int, err error) {
	if ctx.Err() != nil {
		return
	}
	log := p.log.WarnContext
	if pg.IsRetryable(err) {
		log = p.log.DebugContext
	}
	log(ctx, "a group was rolled back or may be, and its commands run one by one", "commands", commands, "error", err)
}
