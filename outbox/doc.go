// Package outbox publishes messages that are committed together with the state they follow from.
//
// It owns the table outbox (migrations/outbox). A service inserts its messages in the transaction that
// changes its own tables, and a Relay publishes them to NATS JetStream after the commit. It needs nothing
// else of this module and is usable alone:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		// … change your own tables …
//		entries, err = outbox.Insert(ctx, tx, outbox.Message{Subject: "orders.placed", Data: order})
//		return err
//	})
//	if err == nil {
//		relay.HandOff(entries...)
//	}
//
// # States of a row
//
//	inserted ──► handed off (memory) ──► published ──► acknowledged ──► deleted
//	    └──► claimed by a poll ─────────────┘   │
//	               ▲───────────── not acknowledged: free again after a while
//
// # Guarantees
//
//   - A message is published only if its transaction is committed, and then at least once: the row is
//     deleted only after its PubAck. It may be published more than once; copies carry the same
//     Nats-Msg-Id, which JetStream drops within its duplicates window. No order is assumed.
//   - A message with a TTL may be dropped unsent after it, by the database's clock. Only messages that
//     somebody sends again should have one.
//   - HandOff is a shortcut past the poll and never required: a row that nobody hands off, or that a
//     crash leaves, is found by the poll of any relay on the database after Grace. It goes by the rows'
//     state with SKIP LOCKED, never by a cursor, so a transaction that commits late is not skipped.
//   - Memory is bounded by HandOffBytesMax and HandOffMax, however long NATS is away.
//
// # Failure
//
// While NATS is away rows stay, and the poll waits with backoff. A message whose queue is full is tried
// again after a time that grows with its age; others pass. A message that can never be accepted is logged,
// counted and left in the table, to be tried every hour. While PostgreSQL is away nothing is published
// twice by this process for that reason: what is acknowledged stays in memory until its row is deleted.
package outbox
