package coordinatortest

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Call is one call of a fake's action: what a handler would have been called with, and what it did. Commands that the
// barrier answers itself (repetitions, cancels of nothing, late tries) are none.
type Call struct {
	Participant string
	Action      string
	Tenant      string
	Transaction saga.ID
	Step        string
	Phase       saga.Phase
	Kind        saga.Kind
	Attempt     int
	Deadline    time.Time           // of a try; zero for none
	Input       saga.Payload        // of the step
	Results     []saga.NamedPayload // with a try: of the steps that it is after
	Try         saga.Payload        // with a confirm or cancel: the try's result, if it was known (S2.5)
	At          time.Time           // by the test's clock
	Outcome     saga.Outcome        // "" if there was no answer, or not yet
	Code        string
}

// String returns step/phase and the outcome with its code, such as "hotel/try refused sold_out".
func (c Call) String() string {
	s := c.Step + "/" + string(c.Phase)
	switch {
	case c.Outcome == "":
		return s + " silent"
	case c.Code != "":
		return s + " " + string(c.Outcome) + " " + c.Code
	}
	return s + " " + string(c.Outcome)
}

// Decode reads the step's input, which must be JSON.
func (c Call) Decode(into any) error {
	if c.Input.Type != "" {
		return errors.New("coordinatortest: the input is of type " + c.Input.Type + ", not JSON")
	}
	return json.Unmarshal(c.Input.Data, into)
}

// Calls returns the calls of the named participants, or of all, in the order they began. Real handlers (Connect) are
// not recorded: look into their database.
func (c *Coordinator) Calls(participants ...string) []Call {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	var calls []Call
	for _, call := range c.e.calls {
		if len(participants) == 0 || slices.Contains(participants, call.Participant) {
			calls = append(calls, *call)
		}
	}
	return calls
}

// called records that an action is called.
func (e *engine) called(cmd saga.Command, body wire.Body) *Call {
	call := &Call{
		Participant: cmd.Participant, Action: cmd.Action, Tenant: cmd.Tenant, Transaction: cmd.Transaction, Step: cmd.Step,
		Phase: cmd.Phase, Kind: cmd.Kind, Attempt: cmd.Attempt, Deadline: cmd.Deadline, At: e.now,
		Input: body.Input, Results: body.Results, Try: body.Try,
	}
	e.calls = append(e.calls, call)
	return call
}
