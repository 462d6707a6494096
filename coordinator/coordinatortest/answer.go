package coordinatortest

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Answer is what a fake does when its action is called, as often as it says. It stands for a handler of package
// participant.
type Answer struct {
	ran    saga.Ran
	times  int
	silent bool
	delay  time.Duration
	do     func(Call) Answer
}

// Always is a number of times without an end.
const Always = math.MaxInt

// Done takes effect. The result is what a handler would return: it is encoded with encoding/json; a json.RawMessage
// and a saga.Payload are kept byte for byte, nil is no result. It panics on a value that cannot be encoded.
func Done(result any) Answer {
	return Answer{times: 1, ran: saga.Ran{Outcome: saga.OutcomeDone, Result: payload(result)}}
}

// Refuse says no for a business reason: participant.Refuse.
func Refuse(code, reason string) Answer {
	return Answer{times: 1, ran: saga.Ran{Outcome: saga.OutcomeRefused, Code: code, Reason: reason}}
}

// Retry fails so many times with an error that may pass. Nothing is recorded.
func Retry(times int) Answer {
	return Answer{times: times, ran: saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeError, Reason: "coordinatortest.Retry"}}
}

// RetryAfter fails once and asks not to be called again before d: participant.RetryAfter.
func RetryAfter(d time.Duration) Answer {
	a := Retry(1)
	a.ran.RetryAfter = d
	return a
}

// Panic fails so many times as a handler that panics does. Exhausted, it is a dead letter (S3).
func Panic(times int) Answer {
	return Answer{times: times, ran: saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodePanic, Reason: "panic: coordinatortest.Panic"}}
}

// Fault can never succeed: a dead letter at once, participant.Fault. An operator's replay gets the next answer.
func Fault(reason string) Answer {
	return Answer{times: 1, ran: saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: reason}}
}

// Unknown is an external effect in doubt that cannot be queried: a dead letter at once.
func Unknown(reason string) Answer {
	return Answer{times: 1, ran: saga.Ran{Outcome: saga.OutcomeUnknown, Reason: reason}}
}

// Silent ends so many times without an effect and without a reply, as a process does that dies. The attempt times out,
// and counts only if the participant answers other commands meanwhile (S2.8).
func Silent(times int) Answer { return Answer{times: times, silent: true} }

// Delay takes d of the test's time before it does what the answer says. Other commands of the step wait so long.
func Delay(d time.Duration, a Answer) Answer {
	a.delay += d
	return a
}

// Do calls f each time, without an end, on a goroutine of its own; what it returns is done. It may look at the
// call's input, tell one transaction from another, fail the test, or wait for a channel: the clock stands still
// meanwhile. A panic of f is answered as one of a handler.
func Do(f func(Call) Answer) Answer { return Answer{times: Always, do: f} }

func payload(result any) saga.Payload {
	switch from := result.(type) {
	case nil:
		return saga.Payload{}
	case saga.Payload:
		return from
	case json.RawMessage:
		return saga.Payload{Data: from}
	}
	data, err := json.Marshal(result)
	if err != nil {
		panic(fmt.Sprintf("coordinatortest: the result cannot be encoded: %v", err))
	}
	return saga.Payload{Data: data}
}

// nth returns the answer to a call, from 0. Behind the last one an action is done, without a result.
func nth(answers []Answer, n int) Answer {
	for _, a := range answers {
		if n < a.times {
			return a
		}
		n -= a.times
	}
	return Done(nil)
}

// call calls the function of a Do. A panic is an answer too.
func (a Answer) call(c Call) (next Answer) {
	defer func() {
		if p := recover(); p != nil {
			next = Panic(1)
			next.ran.Reason = fmt.Sprintf("panic: %v", p)
		}
	}()
	return a.do(c)
}
