package coordinator_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	sdk "github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// X4: what becomes of an operation whose outcome is one of success, refusal, unknown and conflict, and what an approval
// is good for (U3, D4). Effects are rows of the participant's database.
func testApprovedReplays(t *testing.T) {
	t.Parallel()
	t.Run("success", func(t *testing.T) {
		t.Parallel()
		x := newExperiment(t)
		x.post(x.client(), "k", x.body).expect(http.StatusAccepted)
		x.expectEffects(1)
	})
	t.Run("explicit refusal", func(t *testing.T) {
		t.Parallel()
		x := newExperiment(t)
		x.book = func(context.Context, pgx.Tx) error { return sdk.Refuse("no_funds", errors.New("too poor")) }
		x.post(x.client(), "k", x.body).expect(http.StatusAccepted)
		x.expectEnd(saga.StatusCancelled, 0)
		if n := x.w.count(`SELECT count(*) FROM dead_letters`); n != 0 {
			t.Errorf("%d dead letters of a refusal", n)
		}
	})
	t.Run("timeout but succeeded", func(t *testing.T) { testUnknownEffect(t, true) })
	t.Run("timeout and not executed", func(t *testing.T) { testUnknownEffect(t, false) })
	t.Run("content conflict", testConflict)
	t.Run("repeated consumption of an approval", testRepeatedConsumption)
}

// A gateway's answer is lost, and it cannot be asked: nobody knows, so nothing is sent again by itself. When it can be
// asked again, a replay that a second person has approved finds out what is true.
func testUnknownEffect(t *testing.T, happened bool) {
	t.Parallel()
	x := newExperiment(t)
	g := x.gateway()
	g.loses.Store(true)
	g.executes.Store(happened)
	x.charge()
	letter := x.openLetter(0)
	if letter.Cause != saga.DeadLetterUnknown || letter.Outcome != saga.OutcomeUnknown {
		t.Fatalf("the dead letter is %+v", letter)
	}
	before := map[bool]int{true: 1, false: 0}[happened]
	if n := x.effects(); n != before {
		t.Errorf("%d effects before the replay, want %d", n, before)
	}
	x.expectRefused(letter, uuid.Nil, "ann", saga.CodeApprovalRequired)
	approval := x.approve(letter, "bob", 0)
	x.expectRefused(letter, approval, "bob", saga.CodeApprovalOwn)
	g.loses.Store(false)
	x.replay(letter, approval, "ann")
	x.expectEnd(saga.StatusCommitted, 1)
	if n := g.calls.Load(); happened && n != 1 || !happened && n != 2 {
		t.Errorf("the gateway was called %d times", n)
	}
	x.expectRefused(letter, approval, "ann", saga.CodeObsolete, saga.CodeApprovalUsed)
}

// The participant holds other content under the same identity: nothing is executed, and an approved replay repeats the
// conflict, as it must.
func testConflict(t *testing.T) {
	t.Parallel()
	x := newExperiment(t)
	id := saga.ID(uuid.Must(uuid.NewV7()))
	other := []byte(`{"input":{"cents":999}}`)
	forged, err := wire.EncodeCommand(x.w.prefix, saga.Command{
		Verb: saga.VerbExecute, Tenant: caller.Tenant, Transaction: id, Step: "book", Phase: saga.PhaseTry, Kind: saga.KindSaga,
		Participant: "ledger", Action: "book", Attempt: 1, Revision: 1, Timeout: time.Minute, Body: other,
		ContentSHA256: saga.ContentSHA256("book", other), ReplyTo: x.w.prefix + ".reply.ledger.0",
	})
	if err != nil {
		t.Fatal(err)
	}
	x.w.publish(forged)
	x.w.until("the other content is executed", func() bool { return x.effects() == 1 })
	x.post(x.client(), "k", bodyWith(x.def, map[string]any{"id": id.String()})).expect(http.StatusAccepted)
	letter := x.openLetter(0)
	if letter.Cause != saga.FaultConflict {
		t.Fatalf("the dead letter is %+v", letter)
	}
	x.expectRefused(letter, uuid.Nil, "ann", saga.CodeApprovalRequired)
	x.replay(letter, x.approve(letter, "bob", 0), "ann")
	again := x.openLetter(letter.Version)
	if again.Cause != saga.FaultConflict || x.effects() != 1 {
		t.Errorf("replayed: %s, %d effects", again.Cause, x.effects())
	}
	if _, err := x.w.discard(x.c, again); err != nil {
		t.Fatal(err)
	}
	x.expectEnd(saga.StatusCancelled, 2) // the other content's, and the cancel that undoes it
}

// An approval is good for one replay, of what was approved (D4).
func testRepeatedConsumption(t *testing.T) {
	t.Parallel()
	x := newExperiment(t)
	g := x.gateway()
	g.loses.Store(true)
	x.charge()
	first := x.openLetter(0)
	used, left, short := x.approve(first, "bob", 0), x.approve(first, "bob", 0), x.approve(first, "bob", time.Second)
	revoked := x.approve(first, "bob", 0)
	admin := x.c.Admin()
	if _, err := admin.RevokeApproval(x.w.ctx(10*time.Second), coordinator.RevokeParams{Actor: "eve", ID: revoked, Reason: "not so fast"}); err != nil {
		t.Fatal(err)
	}
	x.expectRefused(first, revoked, "ann", saga.CodeApprovalRevoked)
	x.w.until("the short one is over", func() bool {
		return x.w.count(`SELECT count(*) FROM approvals WHERE id = $1 AND expires_at < clock_timestamp()`, short) == 1
	})
	x.expectRefused(first, short, "ann", saga.CodeApprovalExpired)
	x.expectRefused(first, uuid.New(), "ann", saga.CodeApprovalMismatch)

	// Clicked at the same time, by several people: one goes on.
	var clicks sync.WaitGroup
	var carriedOut atomic.Int64
	for _, actor := range []string{"ann", "cid", "dan", "eve", "ann"} {
		clicks.Go(func() {
			err := admin.Replay(x.w.ctx(20*time.Second), coordinator.LetterParams{Actor: actor, DeadLetter: first.ID, Reason: "looked at", Approval: used})
			var state *saga.StateError
			switch {
			case err == nil:
				carriedOut.Add(1)
			case !errors.As(err, &state) || state.Code != saga.CodeApprovalUsed && state.Code != saga.CodeNotDeadLetter && state.Code != saga.CodeApprovalMismatch:
				t.Errorf("a click: %v", err)
			}
		})
	}
	clicks.Wait()
	if n := carriedOut.Load(); n != 1 {
		t.Errorf("%d of 5 replays with one approval were carried out", n)
	}
	second := x.openLetter(first.Version)
	x.expectRefused(second, used, "ann", saga.CodeApprovalUsed)
	x.expectRefused(second, left, "ann", saga.CodeApprovalMismatch) // it was given to what the dead letter was then
	if n := x.w.count(`SELECT count(*) FROM approvals WHERE used_at IS NOT NULL`); n != 1 {
		t.Errorf("%d approvals are used", n)
	}
	if n := x.w.count(`SELECT count(*) FROM audit WHERE allowed AND action = 'replay' AND detail LIKE 'approval % of bob'`); n != 1 {
		t.Errorf("the audit has %d replays", n)
	}

	// With nobody else there: a reason of one word is not enough, and everybody is told.
	glass := coordinator.LetterParams{Actor: "ann", DeadLetter: second.ID, Version: second.Version, BreakGlass: true, Reason: "because"}
	var invalid *saga.InvalidError
	if err := admin.Replay(x.w.ctx(10*time.Second), glass); !errors.As(err, &invalid) || invalid.Code != saga.CodeBreakGlassReason {
		t.Errorf("break-glass without a reason: %v", err)
	}
	g.loses.Store(false)
	glass.Reason = "alone on call; the gateway's log shows that it never came"
	if err := admin.Replay(x.w.ctx(10*time.Second), glass); err != nil {
		t.Fatal(err)
	}
	x.expectEnd(saga.StatusCommitted, 1)
	if n := x.w.count(`SELECT count(*) FROM audit a JOIN approvals p ON a.detail LIKE '%' || p.id || '%'
		WHERE a.allowed AND a.action = 'break_glass' AND a.actor = 'ann' AND p.break_glass AND p.approver = 'ann' AND p.used_by = 'ann'`); n != 1 {
		t.Errorf("the audit has %d broken glasses", n)
	}
}

// gateway is an action whose effect is outside of the participant's transaction, and whose answer may get lost.
type gateway struct {
	loses    atomic.Bool // its answers are lost, and it cannot be asked
	executes atomic.Bool // although its answer is lost, it does what it was asked
	calls    atomic.Int64
}

// gateway starts a participant of that name. Its effects are rows of the ledger too.
func (x *experiment) gateway() *gateway {
	x.t.Helper()
	g := &gateway{}
	const leaseTime = 600 * time.Millisecond
	p, err := sdk.New(sdk.Config{
		Name: "gateway", Pool: x.ledger, NATS: x.w.nc, Prefix: x.w.prefix, Logger: quietLog,
		AckWait: 2 * time.Second, HandlerTimeout: leaseTime / 2, DrainTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		x.t.Fatal(err)
	}
	sdk.Handle(p, "charge", g.action(x, leaseTime))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil && ctx.Err() == nil {
			x.t.Errorf("gateway: %v", err)
		}
	})
	x.t.Cleanup(func() { cancel(); running.Wait() })
	return g
}

func (g *gateway) action(x *experiment, lease time.Duration) sdk.External[sdk.None, sdk.None] {
	effect := func(ctx context.Context, id saga.ID, phase saga.Phase) error {
		_, err := x.ledger.Exec(ctx, `INSERT INTO effects VALUES ($1, $2)`, id.String(), string(phase))
		return err
	}
	return sdk.External[sdk.None, sdk.None]{
		Lease: lease,
		Do: func(ctx context.Context, c sdk.Call[sdk.None]) (sdk.None, error) {
			g.calls.Add(1)
			lost := g.loses.Load()
			if !lost || g.executes.Load() {
				if err := effect(context.WithoutCancel(ctx), c.Transaction, c.Phase); err != nil {
					x.t.Error(err)
				}
			}
			if lost {
				return sdk.None{}, errors.New("connection reset")
			}
			return sdk.None{}, nil
		},
		Undo: func(ctx context.Context, c sdk.Settle[sdk.None, sdk.None]) error {
			return effect(ctx, c.Transaction, c.Phase)
		},
		Inquire: func(ctx context.Context, e sdk.Effect[sdk.None]) (sdk.Found[sdk.None], error) {
			if g.loses.Load() {
				return sdk.FoundUndecided[sdk.None](), nil
			}
			var n int
			err := x.ledger.QueryRow(ctx, `SELECT count(*) FROM effects WHERE transaction_id = $1 AND phase = 'try'`, e.Transaction.String()).Scan(&n)
			switch {
			case err != nil:
				return sdk.Found[sdk.None]{}, err
			case n > 0:
				return sdk.FoundDone(sdk.None{}), nil
			}
			return sdk.FoundAbsent[sdk.None](), nil
		},
	}
}

// charge submits a transaction that charges at the gateway.
func (x *experiment) charge() {
	x.t.Helper()
	def := saga.Define("payment").Saga("charge", "gateway", "charge", saga.AttemptTimeout(10*time.Second),
		saga.RetryBackoff(saga.StrategyExponential, 10*time.Millisecond, 100*time.Millisecond)).MustBuild()
	x.post(x.client(), "k", body(def)).expect(http.StatusAccepted)
}

// openLetter waits for the one dead letter to be open at a later version than that.
func (x *experiment) openLetter(version int64) (letter dlq.DeadLetter) {
	x.t.Helper()
	x.w.until("a dead letter is open", func() bool {
		letters := x.w.letters(x.c, dlq.Filter{Status: saga.DeadLetterOpen})
		if len(letters) != 1 || letters[0].Version <= version {
			return false
		}
		letter = letters[0]
		return true
	})
	return letter
}

func (x *experiment) approve(letter dlq.DeadLetter, actor string, expiry time.Duration) uuid.UUID {
	x.t.Helper()
	a, err := x.c.Admin().Approve(x.w.ctx(10*time.Second), coordinator.ApproveParams{
		Actor: actor, DeadLetter: letter.ID, Version: letter.Version, Reason: "looked at it", ExpiresIn: expiry,
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return a.ID
}

func (x *experiment) replay(letter dlq.DeadLetter, approval uuid.UUID, actor string) {
	x.t.Helper()
	p := coordinator.LetterParams{Actor: actor, DeadLetter: letter.ID, Version: letter.Version, Reason: "it can be asked again", Approval: approval}
	if err := x.c.Admin().Replay(x.w.ctx(10*time.Second), p); err != nil {
		x.t.Fatal(err)
	}
}

// expectRefused replays whatever the dead letter is now: it is refused with one of the codes, and recorded.
func (x *experiment) expectRefused(letter dlq.DeadLetter, approval uuid.UUID, actor string, codes ...string) {
	x.t.Helper()
	refusals := func() int { return x.w.count(`SELECT count(*) FROM audit WHERE NOT allowed AND action = 'replay'`) }
	before := refusals()
	p := coordinator.LetterParams{Actor: actor, DeadLetter: letter.ID, Reason: "at once", Approval: approval}
	err := x.c.Admin().Replay(x.w.ctx(10*time.Second), p)
	var state *saga.StateError
	if !errors.As(err, &state) || state.Code != codes[0] && state.Code != codes[len(codes)-1] {
		x.t.Errorf("a replay by %s: %v, want %v", actor, err, codes)
	}
	if n := refusals() - before; n != 1 {
		x.t.Errorf("%d refusals recorded", n)
	}
}

// expectEnd waits for the end of the one transaction, and counts the effects.
func (x *experiment) expectEnd(status saga.Status, effects int) {
	x.t.Helper()
	x.w.until("it has ended", func() bool { return x.w.count(`SELECT count(*) FROM transactions WHERE finished_at IS NOT NULL`) == 1 })
	if n := x.w.count(`SELECT count(*) FROM transactions WHERE status = $1`, string(status)); n != 1 {
		x.t.Errorf("it is not %s", status)
	}
	if n := x.effects(); n != effects {
		x.t.Errorf("%d effects, want %d", n, effects)
	}
	if n := x.w.count(`SELECT count(*) FROM dead_letters WHERE status IN ('open', 'replaying')`); n != 0 {
		x.t.Errorf("%d dead letters are open (I-15)", n)
	}
	x.t.Logf("%s with %d effects", status, x.effects())
}
