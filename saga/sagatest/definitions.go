package sagatest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// action is what a participant can do: in its own database, or at a gateway that knows more or less about its requests.
type action struct {
	external   bool
	inquire    bool
	idempotent bool
	void       bool
}

// actions is what every participant has, by name.
var actions = map[string]action{
	"book":            {},
	"pay":             {external: true, inquire: true, void: true},
	"pay_once":        {external: true, inquire: true, void: true, idempotent: true},
	"pay_unqueryable": {external: true, idempotent: true},
	"pay_unvoidable":  {external: true, inquire: true},
	"pay_blind":       {external: true},
}

// What steps of each kind may do. A pivot that cannot be queried and voided may stay in doubt for ever: nobody can prove
// what became of it (S2.6), so no run of it has to end.
var (
	actionNames      = []string{"book", "book", "book", "book", "pay", "pay_once", "pay_unqueryable", "pay_unvoidable", "pay_blind"}
	pivotActionNames = []string{"book", "book", "pay", "pay_once"}
)

// drawDefinition returns a random valid definition: up to four saga and tcc steps, a pivot or none, up to two retriable
// steps; in sequence or any graph.
func (w *world) drawDefinition(name string) *saga.Definition {
	b := saga.Define(name).OnExhausted(w.drawPolicy())
	compensable, retriable := w.rnd.IntN(5), w.rnd.IntN(3)
	pivot := w.traits[fenced] || w.rnd.IntN(2) == 0 || compensable+retriable == 0
	if w.traits[fenced] {
		compensable = min(compensable, 1)
	}
	sequence := w.rnd.IntN(2) == 0
	var names, before []string // all steps so far; those that a pivot or compensable step may come after
	add := func(kind func(string, string, string, ...saga.StepOption) *saga.Builder, allowed, may []string) string {
		step := fmt.Sprintf("s%d", len(names))
		options := w.drawOptions()
		if !sequence {
			var after []string
			for _, other := range allowed {
				if w.rnd.IntN(2) == 0 {
					after = append(after, other)
				}
			}
			options = append(options, saga.After(after...))
		}
		act := may[w.rnd.IntN(len(may))]
		for w.traits[outside] && !actions[act].external {
			act = may[w.rnd.IntN(len(may))]
		}
		if w.disaster.restores {
			act = "book"
		}
		kind(step, w.participants[w.rnd.IntN(len(w.participants))].name, act, options...)
		names = append(names, step)
		return step
	}
	for range compensable {
		kind := b.Saga
		if w.rnd.IntN(2) == 0 {
			kind = b.TCC
		}
		before = append(before, add(kind, before, actionNames))
	}
	if pivot {
		add(b.Pivot, before, pivotActionNames)
	}
	for range retriable {
		add(b.Retriable, names, actionNames)
	}
	return b.MustBuild()
}

func (w *world) drawPolicy() saga.ExhaustionPolicy {
	if !w.traits[troubled] && w.rnd.IntN(2) == 0 {
		return saga.OnExhaustedCancel
	}
	return saga.OnExhaustedDeadLetter
}

func (w *world) drawOptions() []saga.StepOption {
	strategies := []saga.Strategy{saga.StrategyExponential, saga.StrategyExponential, saga.StrategyFixed, saga.StrategyImmediate}
	if w.rnd.IntN(20) == 0 {
		return []saga.StepOption{saga.AttemptTimeout(time.Duration(500+w.rnd.IntN(8000)) * time.Millisecond), saga.StraightToDeadLetters()}
	}
	attempts := 4
	if w.traits[troubled] {
		attempts = 2
	}
	return []saga.StepOption{
		saga.Attempts(1 + w.rnd.IntN(attempts)), saga.PhaseTwoAttempts(1 + w.rnd.IntN(attempts)),
		saga.AttemptTimeout(time.Duration(500+w.rnd.IntN(8000)) * time.Millisecond),
		saga.RetryBackoff(strategies[w.rnd.IntN(len(strategies))], 200*time.Millisecond, 20*time.Second),
		saga.WhenExhausted(w.drawPolicy()),
	}
}

// definition finds a registered definition by the name that a submission gives.
func (w *world) definition(text []byte) (*saga.Definition, error) {
	for _, def := range w.definitions {
		if string(text) == `"`+def.Name+`"` {
			return def, nil
		}
	}
	return nil, &saga.InvalidError{Code: "unknown_definition", Field: "submission.definition", Problem: "is not registered", Fix: "register it"}
}

// input is what every step gets: the amount that it moves.
type input struct {
	Amount int64 `json:"amount"`
}

// drawBody returns the body of a submission. The amounts of its steps add up to zero (I-12).
func (w *world) drawBody(def *saga.Definition, own saga.ID) []byte {
	var inputs []string
	rest := int64(0)
	for i, s := range def.Steps {
		amount := 1 + w.rnd.Int64N(100)
		if i == len(def.Steps)-1 {
			amount = -rest
		}
		rest += amount
		inputs = append(inputs, fmt.Sprintf(`%q:{"amount":%d}`, s.Name, amount))
	}
	body := fmt.Sprintf(`{"definition":%q,"inputs":{%s}`, def.Name, strings.Join(inputs, ","))
	if !own.IsZero() {
		body += `,"id":"` + own.String() + `"`
	}
	if w.rnd.IntN(8) == 0 {
		start := w.database.now().Add(w.tail(time.Second, 10*time.Minute))
		body += `,"start_at":"` + start.Format(time.RFC3339Nano) + `"`
	}
	shortest, longest := time.Second, 10*time.Minute
	if w.traits[fenced] {
		shortest, longest = 3*time.Second, 30*time.Second
	}
	if w.rnd.IntN(2) == 0 {
		body += fmt.Sprintf(`,"timeout":%q`, w.tail(shortest, longest).String())
	}
	return []byte(body + "}")
}

// amountOf reads the amount from a command's body, as a handler does.
func amountOf(cmd saga.Command) int64 {
	if b, err := wire.ParseBody(cmd.Phase, cmd.Body); err == nil {
		return amountIn(b.Input)
	}
	return 0
}

func amountIn(p saga.Payload) int64 {
	var in input
	_ = json.Unmarshal(p.Data, &in) // what is not understood moves nothing, which the books show
	return in.Amount
}

// mood is what user code does when it is called.
type mood uint8

const (
	moodDone mood = iota
	moodRefuse
	moodRetry
	moodPanic
	moodFault
	moodUnknown
	moodSlow
	moodKill
)

var moodFaults = [...]fault{
	moodRefuse: handlerRefused, moodRetry: handlerRetried, moodPanic: handlerPanicked, moodFault: handlerFaulted,
	moodUnknown: handlerUnknown, moodSlow: handlerSlow, moodKill: handlerKilled,
}

// stubborn is how many calls of user code in a hundred stay as they are until faults stop.
const stubborn = 15

// mood draws what user code does. Some operations fail always in the same way.
func (w *world) mood(key rowKey, cmd *saga.Command) mood {
	if w.faults.stopped {
		return moodDone
	}
	op := suspectKey{key, cmd.Phase}
	if m, ok := w.moods[op]; ok {
		w.faults.counts[moodFaults[m]]++
		return m
	}
	for m := moodRefuse; m <= moodKill; m++ {
		if w.often(moodFaults[m], w.weakness(cmd, m)*w.faults.chances[moodFaults[m]]) {
			if w.rnd.IntN(100) < stubborn {
				w.moods[op] = m
			}
			return m
		}
	}
	return moodDone
}

// ran is what the SDK makes of it.
func (m mood) ran(cmd saga.Command, took time.Duration) saga.Ran {
	switch {
	case took >= handlerTimeout:
		return saga.Ran{Outcome: saga.OutcomeRetry, Code: "timeout"}
	case m == moodRefuse:
		return saga.Ran{Outcome: saga.OutcomeRefused, Code: "no", Reason: "not today"}
	case m == moodRetry:
		return saga.Ran{Outcome: saga.OutcomeRetry, Reason: "try later", RetryAfter: time.Duration(cmd.Attempt%3) * time.Second}
	case m == moodPanic:
		return saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodePanic}
	case m == moodFault:
		return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler}
	case m == moodUnknown:
		return saga.Ran{Outcome: saga.OutcomeUnknown}
	}
	return saga.Ran{Outcome: saga.OutcomeDone}
}
