package participant

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// TestBarrierBytes: B3, S1.6. Results come back exactly, texts as a text column can hold them.
func TestBarrierBytes(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, want := range []saga.Payload{
		{},
		{Data: []byte{}},
		{Data: []byte("null")},
		{Data: []byte{0}},
		{Type: "application/octet-stream", Data: all},
		{Data: []byte(`{"n":12345678901234567890.10, "s":"\u0000"}` + "\xff\xfe")},
		{Data: bytes.Repeat(all, saga.ResultBytesMax/256)},
	} {
		cmd := barrierCommand(barrierID(), saga.PhaseTry)
		for i, reply := range []saga.Reply{
			mustExecute(t, b, cmd, saga.Ran{Outcome: saga.OutcomeDone, Result: want}), mustExecute(t, b, cmd, saga.Ran{}),
		} {
			got := reply.Result
			if got.Type != want.Type || !bytes.Equal(got.Data, want.Data) || got.IsZero() != want.IsZero() || reply.Replayed != (i == 1) {
				t.Errorf("%d bytes of type %q came back as %d of type %q (replayed %t)", len(want.Data), want.Type, len(got.Data), got.Type, reply.Replayed)
			}
		}
	}
	cmd := barrierCommand(barrierID(), saga.PhaseTry)
	no := saga.Ran{Outcome: saga.OutcomeRefused, Code: "no\x00\xff", Reason: "sold\x00 out\xff" + strings.Repeat("日", 1000)}
	first, second := mustExecute(t, b, cmd, no), mustExecute(t, b, cmd, saga.Ran{})
	if first.Reason != second.Reason || first.Code != second.Code || !strings.HasPrefix(second.Reason, "sold out\uFFFD日") || len(second.Reason) > saga.ReasonBytesMax {
		t.Errorf("answered %q %q, repeated %q %q", first.Code, first.Reason, second.Code, second.Reason)
	}
	large := barrierCommand(barrierID(), saga.PhaseTry)
	if reply := mustExecute(t, b, large, saga.Ran{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: make([]byte, saga.ResultBytesMax+1)}}); reply.Code != saga.FaultResultTooLarge {
		t.Errorf("too large a result: %+v", reply)
	}
	if n := barrierEffectsOf(t, pool, large.Transaction, saga.PhaseTry); n != 0 {
		t.Errorf("%d effects with too large a result", n)
	}
}

// TestBarrierIsolation: other levels are refused with a clear error; the session's default does not matter.
func TestBarrierIsolation(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	for _, level := range []pgx.TxIsoLevel{pgx.Serializable, pgx.RepeatableRead} {
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), sqlEnter, enterArgs(barrierCommand(barrierID(), saga.PhaseTry), time.Second)...)
			return err
		})
		if pg.Code(err) != "SG001" || !strings.Contains(err.Error(), strings.ToUpper(string(level))) {
			t.Errorf("%s: %v", level, err)
		}
	}
	strict := barrierPool(t, pool, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	cmd := barrierCommand(barrierID(), saga.PhaseTry)
	if reply := mustExecute(t, NewBarrier(strict, 0), cmd, barrierDone(saga.PhaseTry)); reply.Outcome != saga.OutcomeDone {
		t.Errorf("serializable by default: %+v", reply)
	}
}

// TestBarrierModes: the wrapper works with every way in which pgx talks to the server.
func TestBarrierModes(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		b := NewBarrier(barrierPool(t, pool, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }), 0)
		for range 2 {
			id, other := barrierID(), barrierID()
			for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseTry, saga.PhaseConfirm} {
				if r := mustExecute(t, b, barrierCommand(id, phase), barrierDone(phase)); string(r.Result.Data) != string(phase)+"-result" {
					t.Errorf("%s %s: %+v", mode, phase, r)
				}
			}
			no := saga.Ran{Outcome: saga.OutcomeRefused, Code: "no"}
			if r := mustExecute(t, b, barrierCommand(other, saga.PhaseTry), no); r.Outcome != saga.OutcomeRefused || r.Replayed {
				t.Errorf("%s: %+v", mode, r)
			}
			inquire := barrierCommand(other, saga.PhaseTry)
			inquire.Verb = saga.VerbInquire
			if r := mustExecute(t, b, inquire, no); r.State != saga.BarrierRefused || r.Code != "no" {
				t.Errorf("%s: %+v", mode, r)
			}
		}
	}
}

// barrierPool is a second pool on the same database, with other settings.
func barrierPool(t *testing.T, pool *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	c := pool.Config()
	change(c)
	other, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// TestBarrierRefusal: I4, S2.7. A refusal keeps the row and undoes what the handler did, after an SQL error too.
// In phase two and of a retriable step it keeps nothing, so that a replay can succeed.
func TestBarrierRefusal(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	no := saga.Ran{Outcome: saga.OutcomeRefused, Code: "no", Reason: "sold out"}
	for _, fails := range []bool{false, true} {
		cmd := barrierCommand(barrierID(), saga.PhaseTry)
		e, err := b.Enter(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := barrierEffect(t.Context(), e.Tx(), cmd); err != nil {
			t.Fatal(err)
		}
		if fails {
			if _, err := e.Tx().Exec(t.Context(), "INSERT INTO once VALUES (1)"); !pg.IsUnique(err, "once_pkey") {
				t.Fatal(err)
			}
		}
		reply, err := e.Conclude(t.Context(), no)
		row := barrierRowOf(t, pool, cmd.Transaction)
		if err != nil || reply.Outcome != saga.OutcomeRefused || row.State != saga.BarrierRefused || barrierEffectsOf(t, pool, cmd.Transaction, saga.PhaseTry) != 0 {
			t.Errorf("fails %t: %+v %v, row %+v", fails, reply, err, row)
		}
	}
	confirmed, cancelled := barrierID(), barrierID()
	mustExecute(t, b, barrierCommand(confirmed, saga.PhaseTry), barrierDone(saga.PhaseTry))
	mustExecute(t, b, barrierCommand(cancelled, saga.PhaseTry), barrierDone(saga.PhaseTry))
	retriable := barrierCommand(barrierID(), saga.PhaseTry)
	retriable.Kind = saga.KindRetriable
	for _, cmd := range []saga.Command{barrierCommand(confirmed, saga.PhaseConfirm), barrierCommand(cancelled, saga.PhaseCancel), retriable} {
		before := barrierText(barrierRowOf(t, pool, cmd.Transaction))
		reply := mustExecute(t, b, cmd, no)
		if reply.Code != saga.FaultRefusedPhaseTwo || barrierText(barrierRowOf(t, pool, cmd.Transaction)) != before || barrierEffectsOf(t, pool, cmd.Transaction, cmd.Phase) != 0 {
			t.Errorf("%s %s: %+v", cmd.Kind, cmd.Phase, reply)
		}
		if reply := mustExecute(t, b, cmd, barrierDone(cmd.Phase)); reply.Outcome != saga.OutcomeDone {
			t.Errorf("replay of %s %s: %+v", cmd.Kind, cmd.Phase, reply)
		}
	}
}

// TestBarrierBusy: a lock that is not granted in time is answered with retry, and nothing is recorded.
func TestBarrierBusy(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b, id := NewBarrier(pool, 20*time.Millisecond), barrierID()
	e, err := b.Enter(t.Context(), barrierCommand(id, saga.PhaseTry))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Abandon(t.Context())
	for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
		if reply := mustExecute(t, b, barrierCommand(id, phase), barrierDone(phase)); reply.Outcome != saga.OutcomeRetry || reply.Code != saga.CodeBusy {
			t.Errorf("%s: %+v", phase, reply)
		}
	}
	e.Abandon(t.Context())
	if row := barrierRowOf(t, pool, id); row.State != "" {
		t.Errorf("left behind: %+v", row)
	}
}

// TestBarrierReserve: S1.5. A reserved operation below the reservation never executes; an executed one is not
// reserved.
func TestBarrierReserve(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b, cmd := NewBarrier(pool, 0), barrierCommand(barrierID(), saga.PhaseTry)
	reserve := cmd
	reserve.Verb = saga.VerbReserve
	if r := mustExecute(t, b, reserve, saga.Ran{}); r.Outcome != saga.OutcomeReserved || r.Revision != cmd.Revision {
		t.Errorf("reserve: %+v", r)
	}
	if r := mustExecute(t, b, cmd, barrierDone(saga.PhaseTry)); r.Code != saga.FaultSuperseded {
		t.Errorf("below: %+v", r)
	}
	inquire := cmd
	inquire.Verb = saga.VerbInquire
	if r := mustExecute(t, b, inquire, saga.Ran{}); r.State != saga.BarrierAbsent {
		t.Errorf("inquire: %+v", r)
	}
	cmd.Revision++
	cmd.ContentSHA256[0] = 9
	if r := mustExecute(t, b, cmd, barrierDone(saga.PhaseTry)); r.Outcome != saga.OutcomeDone {
		t.Errorf("edited: %+v", r)
	}
	reserve.Revision, reserve.ContentSHA256 = cmd.Revision, cmd.ContentSHA256
	if r := mustExecute(t, b, reserve, saga.Ran{}); r.Outcome != saga.OutcomeState || r.State != saga.BarrierTried || string(r.Result.Data) != "try-result" {
		t.Errorf("reserve after execution: %+v", r)
	}
}

// TestBarrierReserveUnderWay: S1.5. While a lease is held, which may be a cancel's, and when a refusal has settled the cancel,
// nothing is reserved of it: the present revision may be carried out, or was answered done.
func TestBarrierReserveUnderWay(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	reserve := func(try saga.Command, phase saga.Phase, want saga.BarrierState) {
		t.Helper()
		cmd := barrierCommand(try.Transaction, phase)
		cmd.Verb = saga.VerbReserve
		if r := mustExecute(t, b, cmd, saga.Ran{}); r.Outcome != saga.OutcomeState || r.State != want {
			t.Errorf("reserving the %s: %+v", phase, r)
		}
	}
	leased := barrierCommand(barrierID(), saga.PhaseTry)
	_, err := pool.Exec(t.Context(), `SELECT saga.barrier_enter('t', $1, 'debit', 'try', 'tcc', 'execute', $2, 1, p_lease => '1 hour')`,
		[16]byte(leased.Transaction), leased.ContentSHA256[:])
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
		reserve(leased, phase, saga.BarrierTrying)
	}
	refused := barrierCommand(barrierID(), saga.PhaseTry)
	mustExecute(t, b, refused, saga.Ran{Outcome: saga.OutcomeRefused, Code: "no"})
	reserve(refused, saga.PhaseCancel, saga.BarrierRefused)
}

// TestBarrierLease: B6. The stale owner of a lease cannot write its result.
func TestBarrierLease(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	cmd := barrierCommand(barrierID(), saga.PhaseTry)
	claim := func(lease string) (verdict string, token *int64) {
		t.Helper()
		err := pool.QueryRow(t.Context(), `SELECT verdict, lease_token FROM saga.barrier_enter('t', $1, 'debit', 'try', 'tcc', 'execute', $2, 2, p_lease => $3::interval)`,
			[16]byte(cmd.Transaction), cmd.ContentSHA256[:], lease).Scan(&verdict, &token)
		if err != nil {
			t.Fatal(err)
		}
		return verdict, token
	}
	leave := func(token *int64) error {
		_, err := pool.Exec(t.Context(), `SELECT saga.barrier_leave('t', $1, 'debit', 'try', $2, 2, 'done', p_lease_token => $3)`,
			[16]byte(cmd.Transaction), cmd.ContentSHA256[:], token)
		return err
	}
	_, stale := claim("0 seconds")
	verdict, owner := claim("1 hour")
	if verdict != "inquire" || *owner <= *stale {
		t.Fatalf("%s, token %d after %d", verdict, *owner, *stale)
	}
	for _, token := range []*int64{stale, nil} {
		if err := leave(token); pg.Code(err) != "SG003" {
			t.Errorf("a stale owner: %v", err)
		}
	}
	if err := leave(owner); err != nil {
		t.Error(err)
	}
	if row := barrierRowOf(t, pool, cmd.Transaction); row.State != saga.BarrierTried {
		t.Errorf("%+v", row)
	}
}

// TestBarrierMisuse: what the functions say to programs that call them wrongly.
func TestBarrierMisuse(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b, cmd := NewBarrier(pool, 0), barrierCommand(barrierID(), saga.PhaseTry)
	_, err := pool.Exec(t.Context(), sqlLeave, leaveArgs(saga.AnswerTo(cmd))...)
	if pg.Code(err) != "SG002" {
		t.Errorf("no outcome: %v", err)
	}
	reply := saga.AnswerTo(cmd)
	reply.Outcome = saga.OutcomeDone
	if _, err = pool.Exec(t.Context(), sqlLeave, leaveArgs(reply)...); pg.Code(err) != "SG003" {
		t.Errorf("leave without enter: %v", err)
	}
	if _, err = pool.Exec(t.Context(), sqlEnter, enterArgs(cmd, time.Second)...); err != nil { // commits
		t.Fatal(err)
	}
	if _, err = barrierExecute(t.Context(), b, cmd, barrierDone(saga.PhaseTry)); pg.Code(err) != "SG004" {
		t.Errorf("enter was committed without leave: %v", err)
	}
	for _, change := range []func(*saga.Command){
		func(c *saga.Command) { c.Kind = "other" }, func(c *saga.Command) { c.Phase = "other" }, func(c *saga.Command) { c.Revision = 0 },
	} {
		bad := barrierCommand(barrierID(), saga.PhaseTry)
		change(&bad)
		if _, err := b.Enter(t.Context(), bad); pg.Code(err) != "SG002" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestBarrierFloor: B7, I-6. Below the floor nothing executes and nothing is left behind.
func TestBarrierFloor(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b, id := NewBarrier(pool, 0), barrierID()
	floor := id
	floor[15]++
	if _, err := pool.Exec(t.Context(), "UPDATE saga.barrier_floor SET floor = $1", [16]byte(floor)); err != nil {
		t.Fatal(err)
	}
	for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
		if reply := mustExecute(t, b, barrierCommand(id, phase), barrierDone(phase)); reply.Code != saga.FaultPastRetention {
			t.Errorf("%s: %+v", phase, reply)
		}
	}
	if row := barrierRowOf(t, pool, id); row.State != "" {
		t.Errorf("left behind: %+v", row)
	}
	if reply := mustExecute(t, b, barrierCommand(floor, saga.PhaseTry), barrierDone(saga.PhaseTry)); reply.Outcome != saga.OutcomeDone {
		t.Errorf("at the floor: %+v", reply)
	}
}

var errTest = errors.New("test")

// healthy runs a statement on every connection of the pool.
func healthy(ctx context.Context, t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, conn := range pool.AcquireAllIdle(ctx) {
		if status := conn.Conn().PgConn().TxStatus(); status != 'I' {
			t.Errorf("a pooled connection is in transaction state %c", status)
		}
		if _, err := conn.Exec(ctx, "SELECT 1"); err != nil {
			t.Errorf("a pooled connection: %v", err)
		}
		conn.Release()
	}
}
