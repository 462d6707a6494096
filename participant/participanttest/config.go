package participanttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Defaults of Config, and the step of every transaction of the suite. The transactions of one check have a second one.
const (
	DefaultTenant   = "participanttest"
	DefaultPatience = 10 * time.Second
	Step            = "step"
	SecondStep      = "second-step"
)

// Config says whom to test and how. NATS, Participant and Actions are required. The participant has to be running, or
// to begin soon.
type Config struct {
	NATS        *nats.Conn // a server with JetStream. The connection stays open
	Prefix      string     // of the subjects, as the participant has it; zero: "saga". No coordinator may run on it
	Participant string     // its name
	Actions     []Action

	// Restart ends the participant, as roughly as the caller likes (kill -9 is best), starts it again, and returns;
	// it need not wait until it answers. Nil: the checks that kill it are left out.
	Restart func(ctx context.Context) error

	// LeaveOut names checks that Run may leave out although something that they need is not given. What is left out without
	// being named fails: a suite that says nothing of what it has not looked at proves less than it seems to.
	LeaveOut []string

	Tenant   string        // of all transactions; zero: DefaultTenant
	Patience time.Duration // how long to wait for one definitive reply; zero: DefaultPatience
	Seed     uint64        // of the random order of one check; zero: drawn, and printed in the report
}

// Action is one action of the participant, and what the suite has to know to call it and to look at its effect. Name,
// Kind, Input and Effects are required.
type Action struct {
	Name string
	Kind saga.Kind

	// Input returns the JSON of an input that the try accepts. n counts the transactions of the suite from 1: what
	// can be used only once (a room, a seat) is taken from it. A run has fewer than 150 for each action.
	Input func(n int) []byte

	// Refusing returns an input that the handler refuses for a business reason. Best is one that is refused after
	// something was changed. Of a retriable step: where the handler returns Refuse although it may not. Nil: the
	// checks of refusals are left out.
	Refusing func(n int) []byte

	// Failing returns an input whose first attempt fails for a passing reason after something was changed, and whose
	// second succeeds. It shows whether the change is rolled back. Nil: that check is left out.
	Failing func(n int) []byte

	// Effects is the probe: it counts, in the participant's own data, what a transaction has done to it. It is called
	// after each reply, when nothing is under way.
	Effects func(ctx context.Context, c Case) (Effect, error)
}

// Case is one step of a transaction of the suite. It is the only one, and called Step, apart from the check two-steps:
// there a probe counts the effects of the step, or those of the transaction.
type Case struct {
	Tenant      string
	Transaction saga.ID
	Step        string // Step or SecondStep
	Action      string
	N           int // what Input was called with
}

// Effect is what stands of a transaction's effects, counted in executions. A run too many shows as a 2 or as a
// negative number, if the data can hold that.
//
//	after            tcc           saga      pivot, retriable
//	nothing          {0, 0}        {0, 0}    {0, 0}
//	the try          {1, 0}        {0, 1}    {0, 1}
//	the confirm      {0, 1}
//	the cancel       {0, 0}        {0, 0}
type Effect struct {
	Held  int // what tries have reserved, and no confirm or cancel has ended: tries − confirms − cancels of a tcc action
	Final int // what is done: confirms of a tcc action, tries − cancels of others
}

// String returns "none", or the numbers that are not zero: "held 1", "held -1, final 2".
func (e Effect) String() string {
	var parts []string
	if e.Held != 0 {
		parts = append(parts, fmt.Sprintf("held %d", e.Held))
	}
	if e.Final != 0 {
		parts = append(parts, fmt.Sprintf("final %d", e.Final))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, bus.DefaultPrefix)
	c.Tenant = cmp.Or(c.Tenant, DefaultTenant)
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	return c
}

func (c Config) validate() error {
	switch {
	case c.NATS == nil:
		return errors.New("participanttest: Config.NATS is nil; connect with nats.Connect, or use NATS(t)")
	case len(c.Actions) == 0:
		return errors.New("participanttest: Config.Actions is empty; name at least one action of the participant")
	case c.Patience < 0:
		return errors.New("participanttest: Config.Patience is negative; use 0 for the default")
	}
	err := errors.Join(
		wire.CheckPrefix(c.Prefix), saga.CheckName("participant name", c.Participant), saga.CheckName("tenant", c.Tenant))
	for _, a := range c.Actions {
		err = errors.Join(err, a.validate())
	}
	if err != nil {
		return fmt.Errorf("participanttest: %w", err)
	}
	return nil
}

func (a Action) validate() error {
	if err := saga.CheckName("action", a.Name); err != nil {
		return err
	}
	kinds := []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}
	switch {
	case !slices.Contains(kinds, a.Kind):
		return fmt.Errorf("action %s: Kind is %q; use saga.KindSaga, KindTCC, KindPivot or KindRetriable", a.Name, a.Kind)
	case a.Input == nil:
		return fmt.Errorf("action %s: Input is nil; return an input that the try accepts", a.Name)
	case a.Effects == nil:
		return fmt.Errorf("action %s: Effects is nil; replies alone do not show what a participant has done to its data", a.Name)
	}
	for name, input := range map[string]func(int) []byte{"Input": a.Input, "Refusing": a.Refusing, "Failing": a.Failing} {
		if input != nil && !json.Valid(input(0)) {
			return fmt.Errorf("action %s: %s(0) is not JSON: %.40q", a.Name, name, input(0))
		}
	}
	return nil
}

// tried is the effect that stands after a try.
func (a Action) tried() Effect {
	if a.Kind == saga.KindTCC {
		return Effect{Held: 1}
	}
	return Effect{Final: 1}
}
