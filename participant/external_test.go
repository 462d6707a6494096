package participant_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

var errLost = errors.New("the answer was lost")

// downstream is a service outside of the database, as the participant's functions see it.
type downstream struct {
	do      func(ctx context.Context, c participant.Call[int]) (string, error)
	inquire func(context.Context) (participant.Found[string], error)
	void    error
	undo    error

	mu    sync.Mutex
	calls []string // "do acme/…/try" and so on, with the key that downstream gets
}

func (d *downstream) called(what, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, what+" "+key)
}

func (d *downstream) setUndo(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undo = err
}

// take returns the calls so far, without the keys' beginning, and forgets them.
func (d *downstream) take(c saga.Command) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	prefix := strings.TrimSuffix(c.Key().String(), string(c.Phase))
	calls := strings.ReplaceAll(strings.Join(d.calls, ", "), prefix, "")
	d.calls = nil
	return calls
}

func (d *downstream) doFunc() participant.DoFunc[int, string] {
	return func(ctx context.Context, c participant.Call[int]) (string, error) {
		d.called("do", c.Key())
		if d.do != nil {
			return d.do(ctx, c)
		}
		return "done", nil
	}
}

func (d *downstream) undoFunc(what string) participant.UndoFunc[int, string] {
	return func(_ context.Context, c participant.Settle[int, string]) error {
		d.called(what, c.TryKey())
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.undo
	}
}

func (d *downstream) inquireFunc() participant.InquireFunc[int, string] {
	return func(ctx context.Context, e participant.Effect[int]) (participant.Found[string], error) {
		d.called("inquire", e.Key())
		return d.inquire(ctx)
	}
}

func (d *downstream) voidFunc() participant.VoidFunc[int] {
	return func(_ context.Context, e participant.Effect[int]) error {
		d.called("void", e.Key())
		return d.void
	}
}

// can says what downstream can do.
type can struct{ inquire, void, idempotent bool }

// handle adds an action of every kind that may be so, named like it.
func (d *downstream) handle(p *participant.Participant, c can) {
	x := participant.External[int, string]{Do: d.doFunc(), Undo: d.undoFunc("undo"), Idempotent: c.idempotent, Lease: time.Hour}
	if c.inquire {
		x.Inquire = d.inquireFunc()
	}
	if c.void {
		x.Void = d.voidFunc()
	}
	participant.Handle(p, "saga", x)
	participant.Handle(p, "tcc", participant.ExternalTCC[int, string]{
		Do: x.Do, Confirm: d.undoFunc("confirm"), Cancel: x.Undo, Inquire: x.Inquire, Void: x.Void, Idempotent: x.Idempotent, Lease: x.Lease,
	})
	if c.inquire && c.void {
		participant.Handle(p, "pivot", participant.ExternalPivot[int, string]{Do: x.Do, Inquire: x.Inquire, Void: x.Void, Idempotent: x.Idempotent, Lease: x.Lease})
	}
	participant.Handle(p, "retriable", participant.ExternalRetriable[int, string]{Do: x.Do, Inquire: x.Inquire, Idempotent: x.Idempotent, Lease: x.Lease})
}

func (k *kit) external(kind saga.Kind, phase saga.Phase) saga.Command {
	return k.command(string(kind), kind, phase, 7)
}

// claim makes the step's row trying, as a process that has died since did.
func (k *kit) claim(c saga.Command) {
	k.t.Helper()
	c = with(c, saga.PhaseTry, 7)
	var verdict string
	err := k.pool.QueryRow(k.t.Context(), `SELECT verdict FROM saga.barrier_enter($1, $2, $3, 'try', $4, 'execute', $5, 1, p_lease => '1 hour')`,
		c.Tenant, [16]byte(c.Transaction), c.Step, string(c.Kind), c.ContentSHA256[:]).Scan(&verdict)
	if err != nil || verdict != "run" {
		k.t.Fatalf("claim: %s, %v", verdict, err)
	}
}

// endLease lets an hour pass.
func (k *kit) endLease(c saga.Command) {
	k.t.Helper()
	tag, err := k.pool.Exec(k.t.Context(), `UPDATE saga.barrier SET lease_until = clock_timestamp() - interval '1 second' WHERE transaction_id = $1 AND state = 'trying'`, [16]byte(c.Transaction))
	if err != nil || tag.RowsAffected() != 1 {
		k.t.Fatalf("no lease was ended: %v %v", tag, err)
	}
}

// state returns the row's state, and whether a lease holds: "trying, leased".
func (k *kit) state(c saga.Command) string {
	k.t.Helper()
	var state string
	err := k.pool.QueryRow(k.t.Context(), `SELECT coalesce((SELECT state || CASE WHEN lease_until > clock_timestamp() THEN ', leased' ELSE '' END
		FROM saga.barrier WHERE transaction_id = $1), 'no row')`, [16]byte(c.Transaction)).Scan(&state)
	if err != nil {
		k.t.Fatal(err)
	}
	return state
}

// U4, M2: while Do runs the row is committed as trying, no connection is held, and the key goes downstream. What it returns is
// stored and repeated; what undoes it runs once.
func TestExternal(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	d := &downstream{}
	d.do = func(ctx context.Context, c participant.Call[int]) (string, error) {
		if n := k.pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections are held", n)
		}
		if state := k.state(saga.Command{Transaction: c.Transaction}); state != "trying, leased" {
			t.Errorf("the row is %s", state)
		}
		return fmt.Sprint("charged ", c.Input), nil
	}
	d.handle(p, can{inquire: true, void: true})
	k.run(p)
	for _, kind := range []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable} {
		try := k.external(kind, saga.PhaseTry)
		for i, c := range []saga.Command{try, again(try)} {
			r := k.do(c)
			want(t, r, saga.OutcomeDone, "")
			if string(r.Result.Data) != `"charged 7"` || r.Replayed != (i == 1) {
				t.Errorf("%s: %+v", kind, r)
			}
		}
		calls := "do try"
		switch kind {
		case saga.KindSaga:
			cancel := with(try, saga.PhaseCancel, 7)
			want(t, k.do(cancel), saga.OutcomeDone, "")
			want(t, k.do(again(cancel)), saga.OutcomeDone, "")
			calls += ", undo try"
		case saga.KindTCC:
			confirm := with(try, saga.PhaseConfirm, 7)
			want(t, k.do(confirm), saga.OutcomeDone, "")
			want(t, k.do(again(confirm)), saga.OutcomeDone, "")
			want(t, k.do(with(try, saga.PhaseCancel, 7)), saga.OutcomeFault, saga.FaultContradicts)
			calls += ", confirm try"
		case saga.KindPivot:
			r := k.do(with(try, saga.PhaseCancel, 7))
			want(t, r, saga.OutcomeFault, saga.FaultContradicts)
			if string(r.Result.Data) != `"charged 7"` {
				t.Errorf("the fence got %s", r.Result.Data)
			}
		default:
		}
		if got := d.take(try); got != calls {
			t.Errorf("%s: called %s, want %s", kind, got, calls)
		}
	}
}

// What Do may return, what is kept of it, and whether it holds the lease: only proof ends doubt (U1, U4).
func TestExternalOutcomes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		err        error
		panics     bool
		kind       saga.Kind
		idempotent bool
		outcome    saga.Outcome
		code       string
		state      string
		patient    bool // the reply asks to wait for the end of the lease
	}{
		{"refused", participant.Refuse("declined", nil), false, saga.KindSaga, false, saga.OutcomeRefused, "declined", "refused", false},
		{"refused by a retriable", participant.Refuse("declined", nil), false, saga.KindRetriable, false, saga.OutcomeFault, saga.FaultRefusedPhaseTwo, "absent", false},
		{"lost", errLost, false, saga.KindSaga, false, saga.OutcomeRetry, saga.CodeError, "trying, leased", true},
		{"lost by a pivot", errLost, false, saga.KindPivot, false, saga.OutcomeRetry, saga.CodeError, "trying, leased", true},
		{"lost, retry after", participant.RetryAfter(time.Second, errLost), false, saga.KindSaga, false, saga.OutcomeRetry, saga.CodeError, "trying, leased", true},
		{"lost, idempotent", errLost, false, saga.KindSaga, true, saga.OutcomeRetry, saga.CodeError, "trying", false},
		{"time-out", context.DeadlineExceeded, false, saga.KindTCC, false, saga.OutcomeRetry, participant.CodeTimeout, "trying, leased", true},
		{"panic", nil, true, saga.KindSaga, false, saga.OutcomeRetry, saga.CodePanic, "trying, leased", true},
		{"fault", participant.Fault(errLost), false, saga.KindSaga, false, saga.OutcomeFault, saga.FaultHandler, "trying, leased", false},
		{"not sent", fmt.Errorf("wrapped: %w", participant.NotSent(errLost)), false, saga.KindSaga, false, saga.OutcomeRetry, saga.CodeError, "absent", false},
		{"not sent, nil", participant.NotSent(nil), false, saga.KindSaga, false, saga.OutcomeRetry, saga.CodeError, "absent", false},
		{"not sent, fault", participant.NotSent(participant.Fault(errLost)), false, saga.KindSaga, false, saga.OutcomeFault, saga.FaultHandler, "absent", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			p := k.new()
			d := &downstream{do: func(context.Context, participant.Call[int]) (string, error) {
				if test.panics {
					panic("at the gateway")
				}
				return "", test.err
			}}
			d.handle(p, can{inquire: true, void: true, idempotent: test.idempotent})
			k.run(p)
			try := k.external(test.kind, saga.PhaseTry)
			r := k.do(try)
			want(t, r, test.outcome, test.code)
			if state := k.state(try); state != test.state || (r.RetryAfter > 50*time.Minute) != test.patient {
				t.Errorf("the row is %s, want %s; retry after %s", state, test.state, r.RetryAfter)
			}
			// Without doubt the same may be tried again, and a cancel has nothing to undo.
			if test.state != "absent" {
				return
			}
			want(t, k.do(again(try)), test.outcome, test.code)
			if calls := d.take(try); calls != "do try, do try" {
				t.Errorf("called %s", calls)
			}
			if test.kind != saga.KindRetriable {
				want(t, k.do(with(try, saga.PhaseCancel, 7)), saga.OutcomeDone, "")
			}
		})
	}
}

// Table B, trying with a live lease: nobody is called.
func TestExternalLeaseLive(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	d := &downstream{}
	d.handle(p, can{inquire: true, void: true, idempotent: true})
	k.run(p)
	for _, kind := range []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot} {
		try := k.external(kind, saga.PhaseTry)
		k.claim(try)
		for _, test := range []struct {
			phase   saga.Phase
			outcome saga.Outcome
			code    string
		}{
			{saga.PhaseTry, saga.OutcomeInProgress, ""},
			{saga.PhaseCancel, saga.OutcomeRetry, saga.CodeBusy},
			{saga.PhaseConfirm, saga.OutcomeFault, saga.FaultNotTried},
		} {
			r := k.do(with(try, test.phase, 7))
			want(t, r, test.outcome, test.code)
			if waits := r.RetryAfter > 50*time.Minute; waits != (test.phase != saga.PhaseConfirm) {
				t.Errorf("%s: retry after %s", test.phase, r.RetryAfter)
			}
		}
		if calls, state := d.take(try), k.state(try); calls != "" || state != "trying, leased" {
			t.Errorf("%s: called %s, the row is %s", kind, calls, state)
		}
	}
}

// Answers of an inquiry.
func found(f participant.Found[string], err error) func(context.Context) (participant.Found[string], error) {
	return func(context.Context) (participant.Found[string], error) { return f, err }
}

// Table B, trying with a lease that is over: every cell, for a try and a cancel. Unknown only where nothing can be found
// out; Do never runs on a guess (U3, U4).
func TestExternalLeaseOver(t *testing.T) {
	t.Parallel()
	happened := found(participant.FoundDone("found"), nil)
	absent := found(participant.FoundAbsent[string](), nil)
	undecided := found(participant.FoundUndecided[string](), nil)
	declined := found(participant.FoundAbsent[string](), participant.Refuse("declined", nil))
	silent := found(participant.FoundDone("a wrong result"), errLost)
	all := []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}
	undone := []saga.Kind{saga.KindSaga, saga.KindTCC}
	fenced := []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot}
	unfenced := []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindRetriable}
	for _, test := range []struct {
		name       string
		kinds      []saga.Kind
		phase      saga.Phase
		inquire    func(context.Context) (participant.Found[string], error)
		idempotent bool
		noVoid     bool
		voidErr    error
		outcome    saga.Outcome
		code       string
		state      string
		calls      string
	}{
		{"try, done", all, saga.PhaseTry, happened, false, false, nil, saga.OutcomeDone, "", "tried", "inquire try"},
		{"try, absent", all, saga.PhaseTry, absent, false, false, nil, saga.OutcomeDone, "", "tried", "inquire try, do try"},
		{"try, undecided", all, saga.PhaseTry, undecided, false, false, nil, saga.OutcomeUnknown, "", "trying", "inquire try"},
		{"try, undecided, idempotent", all, saga.PhaseTry, undecided, true, false, nil, saga.OutcomeDone, "", "tried", "inquire try, do try"},
		{"try, silent", all, saga.PhaseTry, silent, false, false, nil, saga.OutcomeRetry, saga.CodeError, "trying", "inquire try"},
		{"try, silent, idempotent", all, saga.PhaseTry, silent, true, false, nil, saga.OutcomeDone, "", "tried", "inquire try, do try"},
		{"try, refused", fenced, saga.PhaseTry, declined, true, false, nil, saga.OutcomeRefused, "declined", "refused", "inquire try"},
		{"try, refused, retriable", all[3:], saga.PhaseTry, declined, true, false, nil, saga.OutcomeFault, saga.FaultRefusedPhaseTwo, "trying", "inquire try"},
		{"try, cannot be asked", unfenced, saga.PhaseTry, nil, false, false, nil, saga.OutcomeUnknown, "", "trying", ""},
		{"try, cannot be asked, idempotent", unfenced, saga.PhaseTry, nil, true, false, nil, saga.OutcomeDone, "", "tried", "do try"},

		{"cancel, done", undone, saga.PhaseCancel, happened, false, false, nil, saga.OutcomeDone, "", "cancelled", "inquire try, undo try"},
		{"fence, done", all[2:3], saga.PhaseCancel, happened, false, false, nil, saga.OutcomeFault, saga.FaultContradicts, "tried", "inquire try"},
		{"cancel, absent", fenced, saga.PhaseCancel, absent, false, false, nil, saga.OutcomeDone, "", "cancelled", "inquire try, void try"},
		{"cancel, absent, cannot void", undone, saga.PhaseCancel, absent, false, true, nil, saga.OutcomeUnknown, "", "trying", "inquire try"},
		{"cancel, absent, does not void", fenced, saga.PhaseCancel, absent, false, false, errLost, saga.OutcomeRetry, saga.CodeError, "trying", "inquire try, void try"},
		{"cancel, absent, void refuses", fenced, saga.PhaseCancel, absent, false, false, participant.Refuse("no", nil), saga.OutcomeFault, saga.FaultRefusedPhaseTwo, "trying", "inquire try, void try"},
		{"cancel, undecided", fenced, saga.PhaseCancel, undecided, true, false, nil, saga.OutcomeUnknown, "", "trying", "inquire try"},
		{"cancel, silent", fenced, saga.PhaseCancel, silent, true, false, nil, saga.OutcomeRetry, saga.CodeError, "trying", "inquire try"},
		{"cancel, refused", fenced, saga.PhaseCancel, declined, false, false, nil, saga.OutcomeDone, "", "refused", "inquire try"},
		{"cancel, cannot be asked", undone, saga.PhaseCancel, nil, true, false, nil, saga.OutcomeUnknown, "", "trying", ""},

		{"confirm", undone, saga.PhaseConfirm, happened, true, false, nil, saga.OutcomeFault, saga.FaultNotTried, "trying", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			p := k.new()
			d := &downstream{inquire: test.inquire, void: test.voidErr}
			d.handle(p, can{inquire: test.inquire != nil, void: !test.noVoid, idempotent: test.idempotent})
			k.run(p)
			for _, kind := range test.kinds {
				cmd := k.external(kind, test.phase)
				k.claim(cmd)
				k.endLease(cmd)
				r := k.do(cmd)
				want(t, r, test.outcome, test.code)
				if calls, state := d.take(cmd), k.state(cmd); calls != test.calls || state != test.state {
					t.Errorf("%s: called %q, want %q; the row is %q, want %q", kind, calls, test.calls, state, test.state)
				}
				result, wanted := string(r.Result.Data), ""
				switch {
				case test.state == "tried" && strings.HasSuffix(test.calls, "do try"):
					wanted = `"done"`
				case test.state == "tried":
					wanted = `"found"`
				}
				if result != wanted {
					t.Errorf("%s: result %s, want %s", kind, result, wanted)
				}
				second := k.do(again(cmd)) // B3: what is definitive is repeated, what is not is found out again
				want(t, second, test.outcome, test.code)
				if again := d.take(cmd); (again == "") != (test.calls == "" || test.state != "trying") {
					t.Errorf("%s: the second command called %q", kind, again)
				}
			}
		})
	}
}

// A try that runs again was perhaps sent before: that nothing has left this time is no proof about then.
func TestExternalRunsAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	answers := make(chan error, 10)
	d := &downstream{
		do:      func(context.Context, participant.Call[int]) (string, error) { return "", <-answers },
		inquire: found(participant.FoundAbsent[string](), nil),
	}
	d.handle(p, can{inquire: true})
	k.run(p)
	for _, first := range []bool{true, false} {
		for err, state := range map[error]string{participant.NotSent(errLost): "trying", errLost: "trying, leased", participant.Refuse("no", nil): "refused"} {
			try := k.external(saga.KindSaga, saga.PhaseTry)
			if first {
				k.claim(try)
			} else {
				answers <- errLost
				want(t, k.do(try), saga.OutcomeRetry, saga.CodeError)
				try = again(try)
			}
			k.endLease(try)
			answers <- err
			k.do(try)
			if got := k.state(try); got != state {
				t.Errorf("%v: the row is %s, want %s", err, got, state)
			}
		}
	}
}

// What other languages call, called wrongly.
func TestExternalSQL(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	try := k.external(saga.KindRetriable, saga.PhaseTry)
	k.claim(try)
	for call, code := range map[string]string{
		`SELECT saga.barrier_found($1, $2, $3, 1, 'retry')`:         "SG002",
		`SELECT saga.barrier_found($1, $2, $3, 1, NULL)`:            "SG002",
		`SELECT saga.barrier_found($1, $2, $3, 2, 'done')`:          "SG003",
		`SELECT saga.barrier_found($1, $2, $3, 1, 'refused')`:       "SG003", // a retriable step cannot be
		`SELECT 1 / saga.barrier_release($1, $2, $3, 2, true)::int`: "22012",
	} {
		if _, err := k.pool.Exec(t.Context(), call, try.Tenant, [16]byte(try.Transaction), try.Step); pg.Code(err) != code {
			t.Errorf("%s: %v", call, err)
		}
	}
	if state := k.state(try); state != "trying, leased" {
		t.Errorf("the row is %s", state)
	}
	// Tokens go on rising, so that who had the first one cannot write.
	var token int64
	_, err := k.pool.Exec(t.Context(), `SELECT saga.barrier_release($1, $2, $3, 1, true)`, try.Tenant, [16]byte(try.Transaction), try.Step)
	k.claim(try)
	err = errors.Join(err, k.pool.QueryRow(t.Context(), `SELECT lease_token FROM saga.barrier WHERE transaction_id = $1`, [16]byte(try.Transaction)).Scan(&token))
	if err != nil || token != 2 {
		t.Errorf("token %d, %v", token, err)
	}
}

// B6: the owner of a lease that has passed to another stores nothing, and answers what is recorded.
func TestExternalStaleOwner(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	begun, release := make(chan string, 10), make(chan struct{})
	d := &downstream{do: func(_ context.Context, c participant.Call[int]) (string, error) {
		begun <- c.Transaction.String()
		<-release
		return "late", nil
	}}
	d.handle(p, can{})
	k.run(p)
	recorded, held := k.external(saga.KindSaga, saga.PhaseTry), k.external(saga.KindSaga, saga.PhaseTry)
	k.send(recorded, held)
	for range 2 {
		wait(t, "Do", begun)
	}
	for _, c := range []saga.Command{recorded, held} {
		k.endLease(c)
		var token int64
		err := k.pool.QueryRow(t.Context(), `SELECT lease_token FROM saga.barrier_enter($1, $2, $3, 'try', 'saga', 'execute', $4, 1, p_lease => '1 hour')`,
			c.Tenant, [16]byte(c.Transaction), c.Step, c.ContentSHA256[:]).Scan(&token)
		if err != nil || token != 2 {
			t.Fatalf("token %d, %v", token, err)
		}
	}
	if _, err := k.pool.Exec(t.Context(), `SELECT saga.barrier_found($1, $2, $3, 2, 'done', p_result => '"theirs"')`,
		recorded.Tenant, [16]byte(recorded.Transaction), recorded.Step); err != nil {
		t.Fatal(err)
	}
	close(release)
	if r := k.reply(recorded); r.Outcome != saga.OutcomeDone || string(r.Result.Data) != `"theirs"` {
		t.Errorf("the other has recorded: %+v", r)
	}
	want(t, k.reply(held), saga.OutcomeInProgress, "")
	if state := k.state(held); state != "trying, leased" {
		t.Errorf("the row is %s", state)
	}
}

// U1: what is known about an effect is not lost in an outage of the database.
func TestExternalOutage(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	d := &downstream{}
	d.handle(p, can{inquire: true, void: true}) // losing the answer would make somebody ask
	participant.OnPoint(p, func(point string, _ saga.Command) {
		if point == participant.PointRan {
			if _, err := k.pool.Exec(context.Background(), "SELECT 1"); err != nil { // an idle connection is there to be cut
				t.Error(err)
			}
			terminateBackends(t, k)
		}
	})
	k.run(p)
	for _, kind := range []saga.Kind{saga.KindSaga, saga.KindPivot} {
		try := k.external(kind, saga.PhaseTry)
		want(t, k.do(try), saga.OutcomeDone, "")
		if kind == saga.KindSaga {
			want(t, k.do(with(try, saga.PhaseCancel, 7)), saga.OutcomeDone, "")
		}
		if calls := d.take(try); kind == saga.KindSaga && calls != "do try, undo try" || kind == saga.KindPivot && calls != "do try" {
			t.Errorf("called %s", calls)
		}
	}
}

// A Do that has ended when the time to drain is over is recorded all the same; one that ignores its context
// keeps its lease.
func TestExternalEndsLate(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.DrainTimeout = 50 * time.Millisecond })
	begun := make(chan struct{}, 1)
	d := &downstream{do: func(ctx context.Context, _ participant.Call[int]) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return "in time", nil
	}}
	d.handle(p, can{})
	r := k.run(p)
	try := k.external(saga.KindSaga, saga.PhaseTry)
	k.send(try)
	wait(t, "Do", begun)
	r.stop()
	if state := k.state(try); state != "tried" {
		t.Errorf("the row is %s", state)
	}

	p = k.new(func(c *participant.Config) { c.HandlerTimeout = 100 * time.Millisecond })
	release := make(chan struct{})
	deaf := &downstream{do: func(context.Context, participant.Call[int]) (string, error) {
		<-release
		return "nobody hears it", nil
	}}
	deaf.handle(p, can{idempotent: true})
	k.run(p)
	try = k.external(saga.KindSaga, saga.PhaseTry)
	reply := k.do(try)
	want(t, reply, saga.OutcomeRetry, participant.CodeTimeout)
	if state := k.state(try); state != "trying, leased" || reply.RetryAfter < 50*time.Minute {
		t.Errorf("the row is %s, retry after %s", state, reply.RetryAfter)
	}
	close(release)
}

// An Undo that fails is repeated; a refusal there is a fault (S2.7), and nothing of it is stored.
func TestExternalUndoFails(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	d := &downstream{undo: errLost}
	d.handle(p, can{})
	k.run(p)
	try := k.external(saga.KindTCC, saga.PhaseTry)
	want(t, k.do(try), saga.OutcomeDone, "")
	confirm := with(try, saga.PhaseConfirm, 7)
	want(t, k.do(confirm), saga.OutcomeRetry, saga.CodeError)
	d.setUndo(participant.Refuse("no", nil))
	want(t, k.do(again(confirm)), saga.OutcomeFault, saga.FaultRefusedPhaseTwo)
	d.setUndo(nil)
	want(t, k.do(again(again(confirm))), saga.OutcomeDone, "")
	if calls := d.take(try); calls != "do try, confirm try, confirm try, confirm try" {
		t.Errorf("called %s", calls)
	}
}

// What is wrong with a command is found before anything is claimed; a step that never ran can still be cancelled. A program that
// does not know a trying row's action, or has it as one of the database, does not guess.
func TestExternalWrongCommands(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.bank()
	d := &downstream{inquire: found(participant.FoundDone("found"), nil)}
	d.handle(p, can{inquire: true})
	k.run(p)
	bad := k.command("saga", saga.KindSaga, saga.PhaseTry, json.RawMessage(`"seven"`))
	want(t, k.do(bad), saga.OutcomeFault, saga.FaultUndecodable)
	if state := k.state(bad); state != "no row" {
		t.Errorf("the row is %s", state)
	}
	want(t, k.do(with(bad, saga.PhaseCancel, json.RawMessage(`"seven"`))), saga.OutcomeDone, "")
	for action, answer := range map[string]saga.Outcome{"steal": saga.OutcomeRetry, "withdraw": saga.OutcomeUnknown} {
		c := k.command(action, saga.KindSaga, saga.PhaseTry, 7)
		k.claim(c)
		k.endLease(c)
		if r := k.do(c); r.Outcome != answer {
			t.Errorf("%s: %+v", action, r)
		}
	}
	if calls := d.take(bad); calls != "" {
		t.Errorf("called %s", calls)
	}
}

// A lease shorter than Do may take, and a missing function, are mistakes of the program. A pivot needs Inquire and Void: its
// fence ends by proof only (S2.6), and no operator may give it up (S2.13).
func TestExternalMistakes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	d := &downstream{}
	do, undo, inquire, void := d.doFunc(), d.undoFunc("undo"), d.inquireFunc(), d.voidFunc()
	for want, h := range map[string]participant.Handler{
		"Lease is 30s, but":         participant.External[int, string]{Do: do, Undo: undo, Lease: participant.DefaultHandlerTimeout},
		"saga and has no [Do Undo]": participant.External[int, string]{},
		"tcc and has no [Confirm]":  participant.ExternalTCC[int, string]{Do: do, Cancel: undo},
		"pivot and has no [Do Inquire Void] function: only downstream can tell": participant.ExternalPivot[int, string]{},
		"pivot and has no [Inquire] function: only downstream":                  participant.ExternalPivot[int, string]{Do: do, Void: void},
		"pivot and has no [Void] function: only downstream":                     participant.ExternalPivot[int, string]{Do: do, Inquire: inquire},
		"retriable and has no [Do] f":                                           participant.ExternalRetriable[int, string]{},
	} {
		if message := panicOf(func() { participant.Handle(p, "x", h) }); !strings.Contains(message, want) {
			t.Errorf("want a panic with %q, got %q", want, message)
		}
	}
	participant.Handle(p, "ok", participant.ExternalPivot[int, string]{Do: do, Inquire: inquire, Void: void})
	if !slices.Contains(p.Actions(), "ok") {
		t.Error("the action is missing")
	}
}
