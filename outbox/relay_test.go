package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
)

func TestHandOffPublishesAndDeletes(t *testing.T) {
	t.Parallel()
	pool, s := testdb.New(t, schema), newStream(t, nil)
	// A poll that never comes: what is published was handed off.
	r, stop := run(t, outbox.Config{Pool: pool, Publisher: s.publish, Grace: time.Hour})
	const n = 1500
	for range 2 { // the second time round all loops are running already
		r.HandOff(insert(t, pool, numbered(s.prefix+".x", n)...)...)
		awaitEmpty(t, pool)
	}
	if s.count() != 2*n {
		t.Errorf("stored %d messages, want %d", s.count(), 2*n)
	}
	entry := insert(t, pool, outbox.Message{Subject: s.prefix + ".y", Header: map[string][]string{"a": {"b", "c"}}, Data: []byte{0, 255}})
	r.HandOff(entry...)
	awaitEmpty(t, pool)
	got, err := s.js.Stream(t.Context(), s.prefix)
	if err != nil {
		t.Fatal(err)
	}
	m, err := got.GetLastMsgForSubject(t.Context(), s.prefix+".y")
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Data) != "\x00\xff" || strings.Join(m.Header["a"], ",") != "b,c" || m.Header.Get("Nats-Msg-Id") != entry[0].ID().String() {
		t.Errorf("stored %q %v", m.Data, m.Header)
	}
	stop()
	if st := r.Stats(); st.HandedOff != 2*n+1 || st.Published != 2*n+1 || st.Recovered != 0 || st.Dropped != 0 || st.InMemory != 0 || st.InMemoryBytes != 0 {
		t.Errorf("%+v", st)
	}
}

// K: committed, not handed to the publisher.
func TestRowsOfACrashAreRecovered(t *testing.T) {
	t.Parallel()
	pool, s := testdb.New(t, schema), newStream(t, nil)
	header := map[string][]string{"Saga-Step": {"one"}, "Nats-Msg-Id": {"key/1"}}
	insert(t, pool, numbered(s.prefix+".x", 1200)...)
	insert(t, pool, outbox.Message{Subject: s.prefix + ".y", Header: header, Data: []byte("same bytes")})
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: s.publish, Grace: time.Millisecond})
	awaitEmpty(t, pool)
	if s.count() != 1201 || r.Stats().Recovered != 1201 {
		t.Errorf("stored %d, %+v", s.count(), r.Stats())
	}
	got, err := s.js.Stream(t.Context(), s.prefix)
	if err != nil {
		t.Fatal(err)
	}
	m, err := got.GetLastMsgForSubject(t.Context(), s.prefix+".y")
	if err != nil || string(m.Data) != "same bytes" || m.Header.Get("Saga-Step") != "one" || m.Header.Get("Nats-Msg-Id") != "key/1" {
		t.Errorf("stored %+v, %v", m, err)
	}
}

func TestYoungRowsAreLeftToTheirOwner(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(acknowledge)
	old := insert(t, pool, numbered("old", 1)...)
	if _, err := pool.Exec(t.Context(), "UPDATE outbox SET created_at = created_at - interval '1 hour'"); err != nil {
		t.Fatal(err)
	}
	young := insert(t, pool, numbered("young", 1)...)
	run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Minute})
	if m := receive(t, f.sent); m.Subject != "old" || m.Header["Nats-Msg-Id"][0] != old[0].ID().String() {
		t.Errorf("published %+v", m)
	}
	await(t, "the old row is deleted", func() bool { return rowCount(t, pool) == 1 })
	if messages, _ := f.counts(); messages != 1 {
		t.Errorf("published the young row %s too", young[0].ID())
	}
}

func TestRelaysShareTheRows(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(acknowledge)
	const n = 2000
	insert(t, pool, numbered("x", n)...)
	var recovered uint64
	var relays []*outbox.Relay
	for range 3 {
		r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond, PollBatch: 50})
		relays = append(relays, r)
	}
	awaitEmpty(t, pool)
	for _, r := range relays {
		recovered += r.Stats().Recovered
	}
	if messages, copies := f.counts(); messages != n || copies != n || recovered != n {
		t.Errorf("published %d messages %d times, claimed %d", messages, copies, recovered)
	}
}

// Relays that are busy with the same rows: copies are allowed, losses and deadlocks are not.
func TestRelaysThatMeet(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(acknowledge)
	var relays []*outbox.Relay
	for range 2 {
		r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond, PollBatch: 50})
		relays = append(relays, r)
	}
	const n = 100
	var wg sync.WaitGroup
	for range 20 {
		entries := insert(t, pool, numbered("x", n)...)
		for _, r := range relays {
			wg.Go(func() { r.HandOff(entries...) })
		}
	}
	wg.Wait()
	awaitEmpty(t, pool)
	if messages, _ := f.counts(); messages != 20*n {
		t.Errorf("published %d messages", messages)
	}
}

// C2: a transaction with an earlier id that commits later is not skipped.
func TestLateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(acknowledge)
	late, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Rollback(context.Background()) }()
	early, err := outbox.Insert(t.Context(), late, outbox.Message{Subject: "late"})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, pool, numbered("x", 120)...)
	run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond, PollBatch: 50})
	awaitEmpty(t, pool) // all that is visible
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, pool)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[early[0].ID().String()] != 1 {
		t.Error("the late row was not published")
	}
}

func TestRolledBackInsertIsNotPublished(t *testing.T) { // I-8
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(acknowledge)
	boom := errors.New("boom")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := outbox.Insert(t.Context(), tx, numbered("x", 3)...); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	insert(t, pool, outbox.Message{Subject: "committed"})
	run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond})
	awaitEmpty(t, pool)
	if messages, _ := f.counts(); messages != 1 {
		t.Errorf("published %d messages", messages)
	}
}

// C1: a row is deleted only after its PubAck, and a lost PubAck publishes again, under the same id.
func TestLostPubAck(t *testing.T) {
	t.Parallel()
	for _, handOff := range []bool{true, false} {
		t.Run(fmt.Sprintf("handed off %v", handOff), func(t *testing.T) {
			t.Parallel()
			pool, f := testdb.New(t, schema), newFake(nil)
			r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond})
			entries := insert(t, pool, outbox.Message{Subject: "x", Data: []byte("d")})
			if handOff {
				r.HandOff(entries...)
			}
			first := receive(t, f.sent)
			if rowCount(t, pool) != 1 {
				t.Error("deleted before the PubAck")
			}
			f.release(acknowledge, bus.ErrTimeout)
			again := receive(t, f.sent)
			if first.Header["Nats-Msg-Id"][0] != again.Header["Nats-Msg-Id"][0] || string(again.Data) != "d" {
				t.Errorf("first %+v, then %+v", first, again)
			}
			awaitEmpty(t, pool)
		})
	}
}

// Rows that this process is busy with are claimed by its own poll, and not published twice.
func TestOwnPollKnowsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(nil)
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond})
	r.HandOff(insert(t, pool, numbered("x", 20)...)...)
	for range 20 {
		receive(t, f.sent)
	}
	await(t, "the poll has seen the rows", func() bool { return r.Stats().Recovered >= 20 })
	f.release(acknowledge, nil)
	awaitEmpty(t, pool)
	if messages, copies := f.counts(); messages != 20 || copies != 20 {
		t.Errorf("published %d messages %d times", messages, copies)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(nil)
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond, HandOffMax: 10})
	const n = 100
	r.HandOff(insert(t, pool, numbered("x", n)...)...)
	for range 10 {
		receive(t, f.sent)
	}
	if st := r.Stats(); st.InMemory != 10 || st.Dropped != n-10 {
		t.Errorf("%+v", st)
	}
	f.release(acknowledge, nil)
	awaitEmpty(t, pool) // the poll finds the rest, five at a time
	if messages, _ := f.counts(); messages != n {
		t.Errorf("published %d messages", messages)
	}

	large := outbox.Message{Subject: "x", Data: make([]byte, 900<<10)}
	bytesBound := newRelay(t, outbox.Config{Pool: pool, Publisher: f, HandOffBytesMax: 2 << 20})
	bytesBound.HandOff(insert(t, pool, large, large, large)...)
	if st := bytesBound.Stats(); st.InMemory != 2 || st.Dropped != 1 || st.InMemoryBytes > 2<<20 {
		t.Errorf("%+v", st)
	}
}

// A backlog of large messages is read within the bytes bound.
func TestPollIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(nil)
	large := outbox.Message{Subject: "x", Data: make([]byte, 900<<10)}
	for range 4 {
		insert(t, pool, large, large)
	}
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond, HandOffBytesMax: 4 << 20})
	for range 3 { // half of 4 MiB, and the one that passes it
		receive(t, f.sent)
	}
	if st := r.Stats(); st.InMemory > 3 {
		t.Errorf("%+v", st)
	}
	f.release(acknowledge, nil)
	awaitEmpty(t, pool)
}

func TestExpiredRowsAreDroppedUnsent(t *testing.T) { // C12
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(acknowledge)
	brief := outbox.Message{Subject: "brief", TTL: time.Millisecond}
	insert(t, pool, brief, brief)
	waiting := newRelay(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Hour})
	handedOff := insert(t, pool, brief, outbox.Message{Subject: "lasting", TTL: time.Hour})
	waiting.HandOff(handedOff...) // it waits in memory until Run
	await(t, "the time is over", func() bool {
		var over bool
		if err := pool.QueryRow(t.Context(), "SELECT bool_and(expires_at < now() - interval '2 ms') FROM outbox WHERE subject = 'brief'").Scan(&over); err != nil {
			t.Fatal(err)
		}
		return over
	})
	start(t, waiting)
	await(t, "the handed off rows are settled", func() bool { return rowCount(t, pool) == 2 })
	polling, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond})
	awaitEmpty(t, pool)
	if waiting.Stats().Expired != 1 || polling.Stats().Expired != 2 {
		t.Errorf("%+v %+v", waiting.Stats(), polling.Stats())
	}
	if m := receive(t, f.sent); m.Subject != "lasting" {
		t.Errorf("published %s", m.Subject)
	}
	if messages, _ := f.counts(); messages != 1 {
		t.Errorf("published %d messages", messages)
	}
}

func TestMessageThatCannotPassBlocksNoOther(t *testing.T) { // C5
	t.Parallel()
	pool := testdb.New(t, schema)
	s := newStream(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 })
	large := outbox.Message{Subject: s.prefix + ".large", Data: make([]byte, 200)}
	entries := insert(t, pool, append([]outbox.Message{large, large}, numbered(s.prefix+".x", 10)...)...)
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: s.publish, Grace: time.Millisecond, PollBatch: 1})
	r.HandOff(entries[0]) // one by hand, one by poll
	await(t, "the others pass", func() bool { return s.count() == 10 })
	await(t, "both large ones stay, not to be tried soon", func() bool {
		var n int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE claimed_until > now() + interval '30 minutes'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 2 && rowCount(t, pool) == 2
	})
	if r.Stats().Refused != 2 {
		t.Errorf("%+v", r.Stats())
	}
}

func TestFullQueueBlocksNoOther(t *testing.T) { // C12
	t.Parallel()
	pool := testdb.New(t, schema)
	s := newStream(t, func(c *jetstream.StreamConfig) {
		c.Discard, c.DiscardNewPerSubject, c.MaxMsgsPerSubject = jetstream.DiscardNew, true, 1
	})
	insert(t, pool, numbered(s.prefix+".full", 2)...)
	var others []outbox.Message
	for i := range 20 {
		others = append(others, outbox.Message{Subject: fmt.Sprintf("%s.x%d", s.prefix, i)})
	}
	insert(t, pool, others...)
	insert(t, pool, outbox.Message{Subject: "nobody." + s.prefix}) // and one without a stream
	run(t, outbox.Config{Pool: pool, Publisher: s.publish, Grace: time.Millisecond, PollBatch: 2})
	await(t, "the others pass", func() bool { return s.count() == 21 && rowCount(t, pool) == 2 })
	// The participant comes back and empties its queue.
	got, err := s.js.Stream(t.Context(), s.prefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Purge(t.Context(), jetstream.WithPurgeSubject(s.prefix+".full")); err != nil {
		t.Fatal(err)
	}
	await(t, "the second passes", func() bool { return rowCount(t, pool) == 1 })
}

func TestNothingIsTriedWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(acknowledge)
	f.setOffline(true)
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond})
	r.HandOff(insert(t, pool, numbered("x", 5)...)...)
	if st := r.Stats(); st.Dropped != 5 || st.InMemory != 0 {
		t.Errorf("%+v", st)
	}
	f.setOffline(false)
	awaitEmpty(t, pool)
}

// K: PubAck, row not removed. PostgreSQL ends the relay's sessions; nothing is published twice for it.
func TestSessionsEndWhileSettling(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(nil)
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Millisecond})
	r.HandOff(insert(t, pool, numbered("x", 50)...)...)
	for range 50 {
		receive(t, f.sent)
	}
	// A lock makes the deletion wait, so that its session can be ended in the middle.
	locker, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locker.Rollback(context.Background()) }()
	if _, err := locker.Exec(t.Context(), "LOCK TABLE outbox IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	f.release(acknowledge, nil)
	await(t, "the sessions that wait are ended", func() bool {
		var ended int
		// Not in the locker's transaction, which would see the activity of one moment only.
		err := pool.QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM outbox%'`).Scan(&ended)
		if err != nil {
			t.Fatal(err)
		}
		return ended > 0
	})
	if err := locker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, pool)
	if messages, copies := f.counts(); messages != 50 || copies != 50 {
		t.Errorf("published %d messages %d times", messages, copies)
	}
}

func TestRunDrains(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, schema), newFake(nil)
	r := newRelay(t, outbox.Config{Pool: pool, Publisher: f, Grace: time.Hour, DrainTimeout: patience})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.HandOff(insert(t, pool, numbered("x", 3)...)...)
	for range 3 {
		receive(t, f.sent)
	}
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("ended with messages in flight: %v", err)
	default:
	}
	f.release(acknowledge, nil)
	if err := receive(t, ended); err != nil {
		t.Fatal(err)
	}
	if n := rowCount(t, pool); n != 0 {
		t.Errorf("%d rows left", n)
	}
	r.HandOff(insert(t, pool, numbered("x", 1)...)...)
	if st := r.Stats(); st.InMemory != 0 || st.Dropped != 1 {
		t.Errorf("after the end: %+v", st)
	}
	if err := r.Run(t.Context()); err == nil {
		t.Error("Run twice succeeded")
	}
}

func TestRelayIsChecked(t *testing.T) {
	t.Parallel()
	pool, f := testdb.New(t, testdb.Template{}), newFake(acknowledge)
	for name, c := range map[string]outbox.Config{
		"nothing":      {},
		"no publisher": {Pool: pool},
		"two":          {Pool: pool, Publisher: f, NATS: testdb.NATS(t)},
		"negative":     {Pool: pool, Publisher: f, Grace: -1},
		"claim":        {Pool: pool, Publisher: f, ClaimTime: time.Millisecond},
		"batch":        {Pool: pool, Publisher: f, PollBatch: -1},
		"bytes":        {Pool: pool, Publisher: f, HandOffBytesMax: 10},
	} {
		if _, err := outbox.NewRelay(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	r := newRelay(t, outbox.Config{Pool: pool, Publisher: f})
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "migrations") {
		t.Errorf("without the table: %v", err)
	}
}
