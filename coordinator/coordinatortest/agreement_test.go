package coordinatortest_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/saga"
)

// story is a situation that must end the same in memory and with PostgreSQL and NATS.
type story struct {
	name     string
	def      *saga.Definition
	play     func(*coordinatortest.Coordinator) // what its participants do; default: all is done
	submit   func(*client.Submission)           // more than the definition and an input
	act      func(*stage)                       // after the submission; default: wait for the end
	parallel bool                               // the order of its calls is not determined
}

// stage is where a story is played.
type stage struct {
	t     *testing.T
	cl    *client.Client
	fakes *coordinatortest.Coordinator
	id    saga.ID
}

// ending is what must be the same.
type ending struct {
	Status      saga.Status
	Result      saga.Result
	Suspended   bool
	Cause       string
	Operations  []string // step/phase: state outcome code result
	Calls       []string
	Attempts    []string
	DeadLetters []string
}

func (s *stage) tx() client.Transaction {
	s.t.Helper()
	tx, err := s.cl.Get(within(s.t), s.id)
	if err != nil {
		s.t.Fatal(err)
	}
	return tx
}

// until polls, because the real one announces nothing but the end.
func (s *stage) until(what string, ok func(client.Transaction) bool) client.Transaction {
	s.t.Helper()
	ctx := within(s.t)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		tx := s.tx()
		if ok(tx) {
			return tx
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.t.Fatalf("never %s: %+v\n%s", what, tx, s.fakes.Story())
		}
	}
}

func (s *stage) end() {
	s.until("ended", func(tx client.Transaction) bool { return tx.Status.Terminal() })
}

// letters waits for n open dead letters, in the order of the steps.
func (s *stage) letters(n int) []client.DeadLetter {
	s.t.Helper()
	var list []client.DeadLetter
	s.until(fmt.Sprintf("%d open dead letters", n), func(client.Transaction) bool {
		page, err := s.cl.DeadLetters(within(s.t), client.DeadLetterFilter{Status: saga.DeadLetterOpen})
		if err != nil {
			s.t.Fatal(err)
		}
		list = page.DeadLetters
		return len(list) == n
	})
	slices.SortFunc(list, func(a, b client.DeadLetter) int { return strings.Compare(a.Step, b.Step) })
	return list
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) replay() {
	l := s.letters(1)[0]
	s.must(s.cl.Replay(within(s.t), l.ID, l.Version, "repaired"))
}

func (s *stage) discard() {
	l := s.letters(1)[0]
	_, err := s.cl.Discard(within(s.t), l.ID, l.Version, "hopeless")
	s.must(err)
}

// ending reads what became of it.
func (s *stage) ending(parallel bool) ending {
	s.t.Helper()
	tx := s.tx()
	e := ending{Status: tx.Status, Result: tx.Result, Suspended: tx.Suspended, Calls: texts(s.fakes.Calls())}
	if tx.Cause != nil {
		e.Cause = fmt.Sprint(*tx.Cause)
	}
	for _, step := range tx.Steps {
		for _, op := range step.Operations {
			e.Operations = append(e.Operations, fmt.Sprintf("%s/%s: %s %s %s %q #%d", step.Name, op.Phase, op.State, op.Outcome, op.Code, op.Result, op.Attempt))
		}
	}
	attempts, err := s.cl.Attempts(within(s.t), s.id)
	s.must(err)
	for _, a := range attempts {
		e.Attempts = append(e.Attempts, fmt.Sprintf("%s/%s #%d: %s %s %q", a.Step, a.Phase, a.Attempt, a.Outcome, a.Code, a.Reason))
	}
	letters, err := s.cl.DeadLetters(within(s.t), client.DeadLetterFilter{})
	s.must(err)
	for _, l := range letters.DeadLetters {
		e.DeadLetters = append(e.DeadLetters, fmt.Sprintf("%s/%s: %s %s %q %s v%d ×%d", l.Step, l.Phase, l.Status, l.Cause, l.Reason, l.Fingerprint, l.Version, l.BuriedCount))
	}
	slices.Sort(e.DeadLetters)
	if parallel {
		slices.Sort(e.Calls)
		slices.Sort(e.Attempts)
	}
	return e
}

// on plays the story with a coordinator.
func (st *story) on(t *testing.T, cl *client.Client, fakes *coordinatortest.Coordinator) ending {
	t.Helper()
	sub := client.Submission{Definition: st.def, Input: map[string]int{"cents": 100}}
	if st.submit != nil {
		st.submit(&sub)
	}
	got, err := cl.Submit(within(t), sub, client.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, cl: cl, fakes: fakes, id: got.ID}
	act := st.act
	if act == nil {
		act = (*stage).end
	}
	act(s)
	return s.ending(st.parallel)
}

// cast makes the participants.
func (st *story) cast(c *coordinatortest.Coordinator) {
	for _, s := range st.def.Steps {
		c.Participant(s.Participant).On(s.Action, s.Kind)
	}
	if st.play != nil {
		st.play(c)
	}
}

// The coordinator in memory ends every story as the real one does: status, cause, effects in their order, attempts
// and dead letters.
func TestAgreesWithTheRealOne(t *testing.T) {
	t.Parallel()
	for _, st := range stories() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			memory := coordinatortest.New(t)
			st.cast(memory)
			inMemory := st.on(t, memory.Client(), memory)

			fakes := coordinatortest.New(t, coordinatortest.RealTime())
			st.cast(fakes)
			inReality := st.on(t, reality(t, fakes, st.def.Participants()...), fakes)
			for i := range reflect.TypeFor[ending]().NumField() {
				r, m := reflect.ValueOf(inReality).Field(i).Interface(), reflect.ValueOf(inMemory).Field(i).Interface()
				if !reflect.DeepEqual(r, m) {
					t.Errorf("%s\nin reality %q\nin memory  %q", reflect.TypeFor[ending]().Field(i).Name, r, m)
				}
			}
		})
	}
}

// quick makes retries short enough for real time, and without chance.
func quick(attempts int) saga.StepOption {
	return func(s *saga.StepDefinition) {
		saga.RetryBackoff(saga.StrategyFixed, 20*time.Millisecond, time.Second)(s)
		saga.Attempts(attempts)(s)
		saga.PhaseTwoAttempts(attempts)(s)
	}
}

func stories() []story {
	three := saga.Define("three").Saga("a", "p", "a", quick(3)).TCC("b", "q", "b", quick(3)).Saga("c", "p", "c", quick(3)).MustBuild()
	mixed := saga.Define("mixed").TCC("a", "p", "a", quick(2)).Saga("b", "q", "b", quick(2)).Pivot("v", "p", "v", quick(2)).
		Retriable("r", "q", "r", quick(2)).Retriable("s", "p", "s", quick(2)).MustBuild()
	two := saga.Define("two").TCC("a", "p", "a", quick(3)).TCC("b", "q", "b", quick(3)).MustBuild()
	lossy := saga.Define("lossy").TCC("a", "p", "a", quick(3), saga.AttemptTimeout(time.Second)).TCC("b", "q", "b", quick(3)).MustBuild()
	hasty := saga.Define("hasty").Timeout(2*time.Second).Saga("a", "p", "a").Pivot("v", "p", "v").MustBuild()
	diamond := saga.Define("diamond").Saga("a", "p", "a", quick(3)).Saga("b", "q", "b", quick(3), saga.After("a")).
		TCC("c", "r", "c", quick(3), saga.After("a")).Saga("d", "p", "d", quick(3), saga.After("b", "c")).MustBuild()
	answer := func(participant, action string, kind saga.Kind, answers ...coordinatortest.Answer) func(*coordinatortest.Coordinator) {
		return func(c *coordinatortest.Coordinator) { c.Participant(participant).On(action, kind, answers...) }
	}
	return []story{
		{name: "committed", def: three, play: answer("p", "a", saga.KindSaga, coordinatortest.Done(map[string]int{"n": 1}))},
		{name: "refused at the third", def: three, play: answer("p", "c", saga.KindSaga, coordinatortest.Refuse("sold_out", "none left"))},
		{name: "retried", def: two, play: answer("q", "b", saga.KindTCC, coordinatortest.Retry(2), coordinatortest.Done("ok"))},
		{name: "exhausted", def: two, play: answer("q", "b", saga.KindTCC, coordinatortest.Retry(3))},
		{name: "panics", def: two, play: answer("q", "b", saga.KindTCC, coordinatortest.Panic(3)), act: (*stage).thenReplay},
		{name: "fault replayed", def: mixed, play: answer("q", "r", saga.KindRetriable, coordinatortest.Fault("a bug")), act: (*stage).thenReplay},
		{name: "fault again", def: two, play: answer("q", "b", saga.KindTCC, coordinatortest.Fault("one"), coordinatortest.Fault("another")), act: func(s *stage) {
			s.replay()
			s.thenReplay()
		}},
		{name: "discarded try", def: two, play: answer("q", "b", saga.KindTCC, coordinatortest.Unknown("no answer")), act: (*stage).thenDiscard},
		{name: "discarded retriable", def: mixed, play: answer("q", "r", saga.KindRetriable, coordinatortest.Retry(2)), act: (*stage).thenDiscard},
		{name: "discarded pivot", def: mixed, play: answer("p", "v", saga.KindPivot, coordinatortest.Fault("a bug")), act: (*stage).thenDiscard},
		{name: "mixed", def: mixed, play: answer("p", "v", saga.KindPivot, coordinatortest.Retry(1), coordinatortest.Done("paid"))},
		{name: "pivot refused", def: mixed, play: answer("p", "v", saga.KindPivot, coordinatortest.Refuse("insufficient_funds", ""))},
		{name: "pivot exhausted", def: mixed, play: answer("p", "v", saga.KindPivot, coordinatortest.Retry(2))},
		{name: "diamond", def: diamond, parallel: true},
		{name: "diamond refused", def: diamond, play: answer("p", "d", saga.KindSaga, coordinatortest.Refuse("no", "")), parallel: true},
		{name: "resolved", def: two, parallel: true, play: func(c *coordinatortest.Coordinator) {
			c.Participant("p").On("a", saga.KindTCC).Confirm(coordinatortest.Fault("a bug"))
			c.Participant("q").On("b", saga.KindTCC).Confirm(coordinatortest.Fault("a bug too"))
		}, act: func(s *stage) {
			s.letters(1) // b waits for a
			s.discard()
			s.letters(1)
			_, err := s.cl.Resolve(within(s.t), s.id, s.tx().Version, "by hand")
			s.must(err)
			s.end()
		}},
		{name: "delayed start", def: two, submit: func(s *client.Submission) { s.StartAt = time.Now().Add(200 * time.Millisecond) }},
		{name: "client cancels", def: two, play: answer("q", "b", saga.KindTCC, coordinatortest.Fault("a bug")), act: func(s *stage) {
			s.letters(1)
			_, err := s.cl.Cancel(within(s.t), s.id, "changed my mind")
			s.must(err)
			s.end()
		}},
		{name: "client cancels with a fence", def: mixed, play: answer("p", "v", saga.KindPivot, coordinatortest.Unknown("no answer")), act: func(s *stage) {
			s.letters(1)
			_, err := s.cl.Cancel(within(s.t), s.id, "too slow")
			s.must(err)
			s.end()
		}},
		{name: "deadline", def: hasty, play: answer("p", "a", saga.KindSaga, coordinatortest.Silent(1))},
		{name: "deadline after the pivot", def: hasty, play: func(c *coordinatortest.Coordinator) {
			c.Participant("p").On("v", saga.KindPivot, coordinatortest.Done("paid"))
			c.LoseReply("v", saga.PhaseTry, 1)
		}},
		{name: "lost command", def: lossy, play: func(c *coordinatortest.Coordinator) { c.Lose("a", saga.PhaseTry, 1) }},
		{name: "lost reply", def: lossy, play: func(c *coordinatortest.Coordinator) { c.LoseReply("a", saga.PhaseConfirm, 1) }},
		{name: "doubled", def: two, play: func(c *coordinatortest.Coordinator) { c.Duplicate("a", saga.PhaseTry, 1) }},
	}
}

func (s *stage) thenReplay() {
	s.replay()
	s.end()
}

func (s *stage) thenDiscard() {
	s.discard()
	s.end()
}
