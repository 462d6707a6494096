package participant_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// begin counts that user code of an operation has begun, as a process did that died of it.
func (k *kit) begin(c saga.Command) (begun int) {
	k.t.Helper()
	err := k.pool.QueryRow(k.t.Context(), `SELECT saga.barrier_suspect_begin($1, $2, $3, $4, $5, 1)`,
		c.Tenant, [16]byte(c.Transaction), c.Step, string(c.Phase), c.Attempt).Scan(&begun)
	if err != nil {
		k.t.Fatal(err)
	}
	return begun
}

func (k *kit) suspects() (n int) {
	k.t.Helper()
	if err := k.pool.QueryRow(k.t.Context(), `SELECT count(*) FROM saga.barrier_suspect`).Scan(&n); err != nil {
		k.t.Fatal(err)
	}
	return n
}

// M6: what was begun too often and never ended is not run any more. What is recorded is still repeated, and a step that never
// ran can still be cancelled. Sent again by a person, it begins anew.
func TestPoison(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.DeliveriesMax = 3 })
	begun, release := blocking(p)
	close(release)
	k.run(p)
	done := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	want(t, k.do(done), saga.OutcomeDone, "")
	cmd := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	for _, c := range []*saga.Command{&done, &cmd} {
		for n := 1; n <= 3; n++ {
			*c = again(*c)
			for range 2 { // the same delivery is counted once
				if got := k.begin(*c); got != n {
					t.Errorf("begun %d times, want %d", got, n)
				}
			}
		}
		*c = again(*c)
	}
	if r := k.do(done); r.Outcome != saga.OutcomeDone || !r.Replayed {
		t.Errorf("%+v", r)
	}
	want(t, k.do(cmd), saga.OutcomeFault, saga.FaultPoison)
	wait(t, "the first handler", begun)
	if len(begun) > 0 {
		t.Error("the handler of the poison was called")
	}
	poll(t, "the poison is forgotten", func() bool { return k.suspects() == 1 })
	replay := again(cmd)
	want(t, k.do(replay), saga.OutcomeDone, "")
	never := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	never.Attempt = 5
	k.begin(never)
	want(t, k.do(with(never, saga.PhaseCancel, nil)), saga.OutcomeDone, "")
}

// A handler that ends with its process alive leaves no suspicion, whatever its end: an answer, a lost connection, a
// drain.
func TestNoSuspicionStays(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	newParticipant := func() (*participant.Participant, chan struct{}) {
		p := k.bank(func(c *participant.Config) { c.DeliveriesMax, c.DrainTimeout = 1, 50*time.Millisecond })
		begun, _ := blocking(p)
		cut := 0
		handleTry(p, "cut", func(ctx context.Context, tx pgx.Tx) (string, error) {
			if cut++; cut < 3 {
				terminateBackends(t, k)
			}
			_, err := tx.Exec(ctx, "SELECT 1")
			return "", err
		})
		return p, begun
	}
	p, begun := newParticipant()
	r := k.run(p)
	second := func(action string, kind saga.Kind, input any) saga.Command {
		return again(k.command(action, kind, saga.PhaseTry, input))
	}
	want(t, k.do(second("debit", saga.KindTCC, tenCents)), saga.OutcomeDone, "")
	want(t, k.do(second("debit", saga.KindTCC, tooMany)), saga.OutcomeRefused, "insufficient_funds")
	want(t, k.do(second("cut", saga.KindPivot, nil)), saga.OutcomeDone, "")
	block := second("block", saga.KindSaga, nil)
	for range 3 {
		k.send(block)
		wait(t, "the handler", begun)
		r.stop()
		if n := k.suspects(); n != 0 {
			t.Errorf("%d suspects", n)
		}
		p, begun = newParticipant()
		r = k.run(p)
		block = again(block)
	}
	if n := len(k.replies()); n != 3 {
		t.Errorf("%d replies: %+v", n, k.replies())
	}
}

// A suspicion that cannot be ended in an outage is ended after it.
func TestSuspicionIsEndedLater(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank(func(c *participant.Config) { c.AckWait = 150 * time.Millisecond }))
	rename := func(from, to string) {
		if _, err := k.pool.Exec(t.Context(), fmt.Sprintf(`ALTER FUNCTION saga.%s RENAME TO %s`, from, to)); err != nil {
			t.Fatal(err)
		}
	}
	rename("barrier_suspect_end", "away")
	want(t, k.do(again(k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents))), saga.OutcomeDone, "")
	if n := k.suspects(); n != 1 {
		t.Fatalf("%d suspects", n)
	}
	rename("away", "barrier_suspect_end")
	poll(t, "nothing is suspected", func() bool { return k.suspects() == 0 })
}

// The path that has to be fast does not know of suspicion: first deliveries work without its tables.
func TestFirstDeliveriesAreNotCounted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	first := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	want(t, k.do(first), saga.OutcomeDone, "")
	if _, err := k.pool.Exec(t.Context(), `DROP FUNCTION saga.barrier_suspect_begin; DROP FUNCTION saga.barrier_suspect_end`); err != nil {
		t.Fatal(err)
	}
	want(t, k.do(k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)), saga.OutcomeDone, "")
	want(t, k.do(again(first)), saga.OutcomeDone, "") // nor does a stored reply
}

// The last two deliveries of a suspect run while nothing else does; others wait, and go on.
func TestSuspectsRunAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.Concurrency = 3; c.DeliveriesMax = 3 })
	var running, most atomic.Int32
	begun, release := make(chan string, 100), make(chan struct{}, 100)
	participant.Handle(p, "work", participant.Pivot[string, string]{
		Try: func(_ context.Context, _ pgx.Tx, c participant.Call[string]) (string, error) {
			n := running.Add(1)
			defer running.Add(-1)
			most.Store(max(most.Load(), n))
			if c.Input == "suspect" && n != 1 {
				t.Errorf("the suspect runs beside %d", n-1)
			}
			begun <- c.Input
			<-release
			if c.Input == "suspect" && running.Load() != 1 {
				t.Errorf("beside the suspect run %d", running.Load()-1)
			}
			return "", nil
		},
	})
	k.run(p)
	var cmds []saga.Command
	for range 2 {
		cmds = append(cmds, k.command("work", saga.KindPivot, saga.PhaseTry, "other"))
	}
	k.send(cmds...)
	for range 2 {
		wait(t, "the others", begun)
	}
	for range 2 {
		suspect := again(k.command("work", saga.KindPivot, saga.PhaseTry, "suspect"))
		k.begin(suspect)
		cmds = append(cmds, again(suspect))
		k.send(again(suspect))
	}
	select {
	case who := <-begun:
		t.Errorf("the %s has begun beside the others", who)
	case <-time.After(500 * time.Millisecond): // nothing tells that it does not come
	}
	for range 6 {
		c := k.command("work", saga.KindPivot, saga.PhaseTry, "other")
		cmds = append(cmds, c)
		k.send(c)
	}
	for range cmds {
		release <- struct{}{}
	}
	for _, c := range cmds {
		want(t, k.reply(c), saga.OutcomeDone, "")
	}
	if most.Load() < 2 {
		t.Error("nothing ran beside another")
	}
	if n := k.suspects(); n != 0 {
		t.Errorf("%d suspects", n)
	}
}

// A suspect that is run alone has the process to itself: it does not begin before all that was taken is answered. If
// it ends the process, nobody else's answer is lost with it.
func TestAloneMeansNothingElseInHand(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.DeliveriesMax = 1 })
	begun, release := blocking(p)
	close(release)
	first := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	answered, publish := make(chan struct{}, 1), make(chan struct{})
	participant.OnPoint(p, func(point string, c saga.Command) {
		if point == participant.PointAnswered && c.Key() == first.Key() {
			answered <- struct{}{}
			<-publish
		}
	})
	k.run(p)
	k.send(first)
	wait(t, "the first handler", begun)
	wait(t, "its end", answered)
	suspect := again(k.command("block", saga.KindSaga, saga.PhaseTry, nil))
	later := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	k.send(suspect)
	poll(t, "the suspect waits", func() bool { return strings.Contains(k.log.String(), "is run alone") })
	k.send(later)
	select {
	case <-begun:
		t.Error("a handler begins while a reply is not published: neither the suspect may, nor what comes after it")
	case <-time.After(500 * time.Millisecond): // nothing tells that it does not come
	}
	close(publish)
	for _, c := range []saga.Command{first, suspect, later} {
		want(t, k.reply(c), saga.OutcomeDone, "")
	}
}

// What a child process gets to know.
const (
	childDSN    = "SAGACITY_TEST_CHILD_DSN"
	childNATS   = "SAGACITY_TEST_CHILD_NATS"
	childPrefix = "SAGACITY_TEST_CHILD_PREFIX"
)

const killed = 3 // the exit code of a process that a handler has ended

// child is a participant in a process of its own: it works, and some of its actions end it.
func child() int {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv(childDSN))
	if err != nil {
		return 1
	}
	defer pool.Close()
	nc, err := nats.Connect(os.Getenv(childNATS), nats.MaxReconnects(-1))
	if err != nil {
		return 1
	}
	defer nc.Close()
	p, err := participant.New(participant.Config{
		Name: bankName, Pool: pool, NATS: nc, Prefix: os.Getenv(childPrefix), Concurrency: 4, HandlerTimeout: time.Second,
	})
	if err != nil {
		return 1
	}
	var running atomic.Int32
	work := func(ctx context.Context, tx pgx.Tx, c participant.Call[int]) (string, error) {
		running.Add(1)
		defer running.Add(-1)
		timer := time.NewTimer(time.Duration(c.Input) * time.Millisecond)
		defer timer.Stop()
		<-timer.C
		_, err := tx.Exec(ctx, `INSERT INTO works (id) VALUES ($1)`, [16]byte(c.Transaction))
		return "worked", err
	}
	kill := func(ctx context.Context, id saga.ID) {
		beside := running.Load()
		if _, err := pool.Exec(ctx, `INSERT INTO kills (id, beside) VALUES ($1, $2)`, [16]byte(id), beside); err != nil {
			fmt.Fprintln(os.Stderr, "kill:", err)
			return
		}
		os.Exit(killed)
	}
	participant.Handle(p, "work", participant.Pivot[int, string]{Try: work})
	participant.Handle(p, "kill", participant.Retriable[int, string]{
		Try: func(ctx context.Context, _ pgx.Tx, c participant.Call[int]) (string, error) {
			kill(ctx, c.Transaction)
			return "", errors.New("it lives")
		},
	})
	participant.Handle(p, "kill-outside", participant.ExternalRetriable[int, string]{
		Do: func(ctx context.Context, c participant.Call[int]) (string, error) {
			kill(ctx, c.Transaction)
			return "", errors.New("it lives")
		},
		Idempotent: true, Lease: 1100 * time.Millisecond,
	})
	if err := p.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// supervise runs two children until stop is closed, starts those again that were killed, and returns how
// many were.
func (k *kit) supervise(dsn, natsURL string, stop <-chan struct{}) (deaths int) {
	var mu sync.Mutex
	var children sync.WaitGroup
	for range 2 {
		children.Go(func() {
			for {
				ctx, cancel := context.WithCancel(context.Background())
				cmd := exec.CommandContext(ctx, os.Args[0])
				cmd.Env = append(os.Environ(), childDSN+"="+dsn, childNATS+"="+natsURL, childPrefix+"="+k.prefix)
				cmd.Stderr = k.log
				ended := make(chan error, 1)
				go func() { ended <- cmd.Run() }()
				select {
				case <-stop:
					cancel()
					<-ended
					return
				case <-ended:
					cancel()
				}
				if code := cmd.ProcessState.ExitCode(); code != killed {
					k.t.Errorf("a child ended with code %d\n%s", code, k.log)
					return
				}
				mu.Lock()
				deaths++
				mu.Unlock()
			}
		})
	}
	children.Wait()
	return deaths
}

// coordinate sends every operation again, with the next attempt, until each has a definitive reply. A command lives as long as its
// attempt, which is shorter than AckWait: no death is seen as a second delivery.
func (k *kit) coordinate(cmds []saga.Command) map[saga.OperationKey]saga.Reply {
	const attempt = time.Second
	definitive := map[saga.OperationKey]saga.Reply{}
	sent := make([]time.Time, len(cmds))
	seen := 0
	step := func() bool {
		replies := k.replies()
		for ; seen < len(replies); seen++ {
			if r := replies[seen]; r.Outcome == saga.OutcomeDone || r.Outcome == saga.OutcomeFault {
				definitive[r.Key()] = r
			}
		}
		for i := range cmds {
			if _, ok := definitive[cmds[i].Key()]; ok || time.Since(sent[i]) < attempt {
				continue
			}
			cmds[i].Timeout, sent[i] = attempt, time.Now()
			k.send(cmds[i])
			cmds[i] = again(cmds[i])
		}
		return len(definitive) == len(cmds)
	}
	timer := time.NewTimer(2 * time.Minute)
	defer timer.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !step() {
		select {
		case <-ticker.C:
		case <-timer.C:
			k.t.Errorf("%d of %d operations ended", len(definitive), len(cmds))
			return definitive
		}
	}
	return definitive
}

// M6, S3: commands that end their process are found to be poison after a bounded number of deaths, the last two of each alone
// in its process; all others finish once, and none of them is poison.
func TestKillersArePoison(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	if _, err := k.pool.Exec(t.Context(), `CREATE TABLE works (id uuid); CREATE TABLE kills (n int GENERATED ALWAYS AS IDENTITY, id uuid, beside int)`); err != nil {
		t.Fatal(err)
	}
	killers := []saga.Command{k.command("kill", saga.KindRetriable, saga.PhaseTry, 0), k.command("kill-outside", saga.KindRetriable, saga.PhaseTry, 0)}
	var innocent []saga.Command
	for i := range 40 { // the slow ones are there whenever a killer comes
		ms := 20
		if i%4 == 0 {
			ms = 600
		}
		innocent = append(innocent, k.command("work", saga.KindPivot, saga.PhaseTry, ms))
	}
	stop, deaths := make(chan struct{}), make(chan int, 1)
	go func() { deaths <- k.supervise(k.pool.Config().ConnString(), k.nc.ConnectedUrl(), stop) }()
	replies := k.coordinate(append(append([]saga.Command{}, innocent[:20]...), append(killers, innocent[20:]...)...))
	close(stop)
	died := <-deaths
	for _, c := range killers {
		want(t, replies[c.Key()], saga.OutcomeFault, saga.FaultPoison)
		rows, err := k.pool.Query(t.Context(), `SELECT beside FROM kills WHERE id = $1 ORDER BY n DESC`, [16]byte(c.Transaction))
		if err != nil {
			t.Fatal(err)
		}
		beside, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil || len(beside) < 2 || beside[0] != 0 || beside[1] != 0 || len(beside) > participant.DefaultDeliveriesMax+1 {
			t.Errorf("%s killed beside %v others, last first; %v", c.Action, beside, err)
		}
		t.Logf("%s killed beside %v others, last first", c.Action, beside)
	}
	for _, c := range innocent {
		want(t, replies[c.Key()], saga.OutcomeDone, "")
	}
	var worked, twice, suspects int
	err := k.pool.QueryRow(t.Context(), `SELECT (SELECT count(DISTINCT id) FROM works), (SELECT count(*) - count(DISTINCT id) FROM works), (SELECT count(*) FROM saga.barrier_suspect)`).
		Scan(&worked, &twice, &suspects)
	if err != nil || worked != len(innocent) || twice != 0 {
		t.Errorf("%d worked, %d twice, %v", worked, twice, err)
	}
	if limit := len(killers) * (participant.DefaultDeliveriesMax + 1); died > limit || died < participant.DefaultDeliveriesMax {
		t.Errorf("%d processes died, want at most %d", died, limit)
	}
	t.Logf("%d processes died, %d suspects are left", died, suspects)
}
