package participant_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

var errDown = errors.Join(bus.ErrInvalid, errors.New("the test publishes nothing"))

// I5, B5: a participant that dies after its commit and before its reply was published repeats the same reply when
// the command comes again, to this process or another.
func TestCrashBetweenCommitAndReply(t *testing.T) {
	t.Parallel()
	for _, input := range []bank.Move{tenCents, tooMany} {
		k := newKit(t)
		p := k.bank()
		var unsent atomic.Pointer[bus.Message]
		lost := make(chan struct{}, 10)
		participant.OnPublish(p, func(m bus.Message) error {
			if unsent.CompareAndSwap(nil, &m) {
				lost <- struct{}{}
			}
			return errDown
		})
		first := k.run(p)
		try := k.command("debit", saga.KindTCC, saga.PhaseTry, input)
		k.send(try)
		wait(t, "the reply that is not published", lost)
		first.stop()
		if n := len(k.replies()); n != 0 {
			t.Fatalf("%d replies came", n)
		}
		second := k.run(k.bank())
		r := k.reply(try)
		was, err := wire.DecodeReply(*unsent.Load())
		if err != nil {
			t.Fatal(err)
		}
		if !r.Replayed || was.Replayed || string(r.Result.Data) != string(was.Result.Data) || r.Outcome != was.Outcome ||
			r.Code != was.Code || r.Reason != was.Reason {
			t.Errorf("first %+v, then %+v", was, r)
		}
		k.commandsLeft(0) // B5: acknowledged after the reply
		second.stop()
		// I4, I5: the reply survives a restart.
		k.run(k.bank())
		r = k.do(again(try))
		if !r.Replayed || string(r.Result.Data) != string(was.Result.Data) || r.Outcome != was.Outcome {
			t.Errorf("after a restart: %+v", r)
		}
		if was.Outcome == saga.OutcomeDone {
			k.wantRuns(try, 1)
		}
	}
}

// M2: a participant that loses its connection before the commit has changed nothing, says nothing, and does it
// again by itself.
func TestConnectionLostBeforeCommit(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.bank()
	var killed atomic.Bool
	participant.OnPoint(p, func(point string, c saga.Command) {
		if point != participant.PointRan || !killed.CompareAndSwap(false, true) {
			return
		}
		terminateBackends(t, k)
	})
	k.run(p)
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	want(t, k.do(try), saga.OutcomeDone, "")
	k.wantRuns(try, 1)
	if n := len(k.replies()); n != 1 || !killed.Load() {
		t.Errorf("%d replies: %+v", n, k.replies())
	}
}

// The same while the handler runs, whatever it makes of the loss.
func TestConnectionLostInHandler(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(error) error{
		"error":   func(err error) error { return err },
		"refusal": func(err error) error { return participant.Refuse("no_account", err) },
		"fault":   participant.Fault,
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			p := k.new()
			runs := 0
			handleTry(p, "cut", func(ctx context.Context, tx pgx.Tx) (string, error) {
				runs++
				if runs == 1 {
					terminateBackends(t, k)
				}
				if _, err := tx.Exec(ctx, sqlTake); err != nil {
					return "", wrap(err)
				}
				return "taken", nil
			})
			r := k.run(p)
			want(t, k.do(k.command("cut", saga.KindPivot, saga.PhaseTry, nil)), saga.OutcomeDone, "")
			r.stop()
			if b := k.balance(); b != seedCents-1 || runs != 2 {
				t.Errorf("%d runs, balance %d", runs, b)
			}
		})
	}
}

// terminateBackends cuts all connections of the test's database but its own.
func terminateBackends(t *testing.T, k *kit) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), k.pool.Config().ConnString())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	var n int
	err = conn.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&n)
	if err != nil || n == 0 {
		t.Errorf("cut %d connections: %v", n, err)
	}
}

// M3, M4, I-1, I-3: copies of all phases of many steps in any order: at most one effect of each operation, never a
// confirm and a cancel, and no money lost.
func TestDuplicatesAndReorderings(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []saga.Command
	for range 40 {
		try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
		for attempt := 1; attempt <= 2; attempt++ {
			for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
				c := with(try, phase, tenCents)
				c.Attempt = attempt
				all = append(all, c)
			}
		}
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	k.send(all...)
	type attempt struct {
		key saga.OperationKey
		n   int
	}
	answers := map[attempt]saga.Reply{}
	k.until("all replies", func(replies []saga.Reply) bool {
		for _, r := range replies {
			answers[attempt{r.Key(), r.Attempt}] = r
		}
		return len(answers) == len(all)
	})
	repeated, err := bank.Repeated(t.Context(), k.pool)
	if err != nil || len(repeated) > 0 {
		t.Errorf("effects that happened twice: %v %v", repeated, err)
	}
	confirmed := 0
	for _, c := range all {
		if c.Phase != saga.PhaseTry || c.Attempt != 1 {
			continue
		}
		confirms, cancels := k.runs(with(c, saga.PhaseConfirm, tenCents)), k.runs(with(c, saga.PhaseCancel, tenCents))
		if confirms+cancels > k.runs(c) {
			t.Errorf("%s: tried %d, confirmed %d, cancelled %d", c.Key(), k.runs(c), confirms, cancels)
		}
		confirmed += confirms
	}
	if total, err := bank.Total(t.Context(), k.pool); err != nil || total != 2*seedCents-int64(10*confirmed) {
		t.Errorf("total %d with %d confirmed, %v", total, confirmed, err)
	}
	if held, err := bank.HeldTotal(t.Context(), k.pool); err != nil || held != 0 {
		t.Errorf("held %d, %v", held, err)
	}
}

// blocking adds an action whose try says that it has begun and waits until it is released or its context ends.
func blocking(p *participant.Participant) (begun chan struct{}, release chan struct{}) {
	begun, release = make(chan struct{}, 1000), make(chan struct{})
	participant.Handle(p, "block", participant.Saga[participant.None, string]{
		Try: func(ctx context.Context, _ pgx.Tx, _ participant.Call[participant.None]) (string, error) {
			begun <- struct{}{}
			select {
			case <-release:
				return "released", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
		Cancel: func(context.Context, pgx.Tx, participant.Settle[participant.None, string]) error { return nil },
	})
	return begun, release
}

func TestDrainFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	begun, release := blocking(p)
	r := k.run(p)
	var cmds []saga.Command
	for range 4 {
		cmds = append(cmds, k.command("block", saga.KindSaga, saga.PhaseTry, nil))
	}
	k.send(cmds...)
	for range cmds {
		wait(t, "the handlers", begun)
	}
	r.cancel()
	close(release)
	r.stop()
	for _, c := range cmds {
		want(t, k.reply(c), saga.OutcomeDone, "")
	}
	k.commandsLeft(0)
}

// What is not done when the time to drain is over is rolled back, not answered, and comes again.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.DrainTimeout = 50 * time.Millisecond })
	begun, _ := blocking(p)
	r := k.run(p)
	cmd := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	k.send(cmd)
	wait(t, "the handler", begun)
	r.stop()
	if n := len(k.replies()); n != 0 {
		t.Fatalf("%d replies: %+v", n, k.replies())
	}
	p = k.new()
	_, release := blocking(p)
	close(release)
	k.run(p)
	if reply := k.reply(cmd); reply.Outcome != saga.OutcomeDone || reply.Replayed {
		t.Errorf("%+v", reply)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.Concurrency = 3 })
	begun, release := blocking(p)
	k.run(p)
	var cmds []saga.Command
	for range 30 {
		cmds = append(cmds, k.command("block", saga.KindSaga, saga.PhaseTry, nil))
	}
	k.send(cmds...)
	for range 3 {
		wait(t, "a handler", begun)
	}
	select {
	case <-begun:
		t.Error("a fourth handler runs")
	case <-time.After(300 * time.Millisecond): // nothing tells that it does not come
	}
	close(release)
	for _, c := range cmds {
		want(t, k.reply(c), saga.OutcomeDone, "")
	}
}

// Commands of one step run one after the other, and do not keep others waiting.
func TestCommandsOfOneStepWaitForEachOther(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.Concurrency = 2 })
	begun, release := blocking(p)
	k.run(p)
	first := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	k.send(first, again(first), with(first, saga.PhaseCancel, nil))
	wait(t, "the first", begun)
	other := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	k.send(other)
	wait(t, "the other step", begun) // the two behind the first hold no place of a handler
	close(release)
	want(t, k.reply(other), saga.OutcomeDone, "")
	want(t, k.reply(first), saga.OutcomeDone, "")
	if r := k.reply(again(first)); !r.Replayed && r.Outcome != saga.OutcomeHanging {
		t.Errorf("the copy: %+v", r)
	}
	want(t, k.reply(with(first, saga.PhaseCancel, nil)), saga.OutcomeDone, "")
	if len(begun) != 0 {
		t.Error("the copy ran")
	}
}

// A handler that takes longer than AckWait is not delivered again.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.AckWait = 300 * time.Millisecond })
	var taken atomic.Int32
	participant.OnPoint(p, func(point string, _ saga.Command) {
		if point == participant.PointTaken {
			taken.Add(1)
		}
	})
	begun, release := blocking(p)
	r := k.run(p)
	cmd := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	k.send(cmd)
	wait(t, "the handler", begun)
	<-time.After(time.Second) // three times AckWait: the time itself is what is tested
	close(release)
	want(t, k.reply(cmd), saga.OutcomeDone, "")
	k.commandsLeft(0)
	r.stop()
	if n := taken.Load(); n != 1 {
		t.Errorf("it was delivered %d times", n)
	}
}

// C5: what cannot be decoded is answered if it says enough, else logged and dropped; neither stops others.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	good := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	bad := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	m, err := wire.EncodeCommand(k.prefix, bad)
	if err != nil {
		t.Fatal(err)
	}
	m.Data = []byte(`{"input":"forged"}`)
	nameless, err := wire.EncodeCommand(k.prefix, k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents))
	if err != nil {
		t.Fatal(err)
	}
	delete(nameless.Header, wire.HeaderTransaction)
	k.sendRaw(m, nameless)
	k.send(good)
	want(t, k.reply(good), saga.OutcomeDone, "")
	want(t, k.reply(bad), saga.OutcomeFault, saga.FaultUndecodable)
	k.commandsLeft(0)
	k.wantRuns(bad, 0)
	if log := k.log.String(); !strings.Contains(log, "cannot be decoded or answered") || !strings.Contains(log, wire.HeaderTransaction) {
		t.Errorf("the log does not show the command that was dropped:\n%s", log)
	}
}

// A reply that cannot be published for a while is published later, without another delivery.
func TestPublishIsRepeated(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.bank()
	var tries atomic.Int32
	participant.OnPublish(p, func(bus.Message) error {
		if tries.Add(1) < 3 {
			return bus.ErrTimeout
		}
		return nil
	})
	k.run(p)
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	if r := k.do(try); r.Replayed || r.Outcome != saga.OutcomeDone || tries.Load() != 3 {
		t.Errorf("after %d tries: %+v", tries.Load(), r)
	}
}
