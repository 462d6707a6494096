package saga

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Definition is a named, versioned list of steps and policies. Make one with Define or ParseDefinition:
// both validate and fill in what Step needs. Its fields are to be read, not changed, after that.
type Definition struct {
	Name        string           `json:"name"`
	Version     int              `json:"version,omitempty"`      // 1 if absent
	Timeout     Duration         `json:"timeout,omitzero"`       // from submission to deadline; default 24h
	OnExhausted ExhaustionPolicy `json:"on_exhausted,omitempty"` // default for the steps
	Steps       []StepDefinition `json:"steps"`

	graph graph
}

// StepDefinition is one step: who executes what, when, and how patiently.
type StepDefinition struct {
	Name           string           `json:"name"`
	Kind           Kind             `json:"kind,omitempty"` // saga if absent
	Participant    string           `json:"participant"`
	Action         string           `json:"action"`
	After          []string         `json:"after,omitzero"` // names of steps; present and empty: a root
	AttemptTimeout Duration         `json:"attempt_timeout,omitzero"`
	Retry          Retry            `json:"retry,omitzero"`
	OnExhausted    ExhaustionPolicy `json:"on_exhausted,omitempty"` // of the try of a saga or tcc step
}

// Retry is the policy of an operation's attempts. Zero fields mean the defaults.
type Retry struct {
	Backoff
	MaxAttempts      int `json:"max_attempts,omitempty"`       // of a try; default 10, with StrategyDeadLetter 1
	PhaseTwoAttempts int `json:"phase_two_attempts,omitempty"` // of confirm, cancel, fence and retriable try; default 30, with StrategyDeadLetter 1
}

// ExhaustionPolicy says what follows when a saga or tcc try used up its attempts (S2.4).
type ExhaustionPolicy string

// The policies.
const (
	OnExhaustedCancel     ExhaustionPolicy = "cancel"      // cancel the transaction (the default)
	OnExhaustedDeadLetter ExhaustionPolicy = "dead_letter" // set the try aside for an operator
)

// graph is what Compile derives from the steps, all by index.
type graph struct {
	compiled   bool
	byName     map[string]int
	after      [][]int // predecessors
	dependents [][]int // successors
	order      []int   // topological
	pivot      int     // -1 if there is none
}

// ParseDefinition reads the JSON form and validates it. Unknown and duplicate members are refused: a
// misspelt policy must not be ignored in silence. Errors are *InvalidError.
func ParseDefinition(data []byte) (*Definition, error) {
	var d Definition
	if err := UnmarshalStrict(data, "definition", 8, &d); err != nil {
		return nil, err
	}
	if err := d.compile(); err != nil {
		return nil, err
	}
	return &d, nil
}

// JSON returns the canonical JSON form: equal definitions have equal bytes.
func (d *Definition) JSON() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic("saga: a valid definition always encodes: " + err.Error())
	}
	return b
}

// StepIndex returns the index of the step of that name, or -1.
func (d *Definition) StepIndex(name string) int {
	if i, ok := d.graph.byName[name]; ok {
		return i
	}
	return -1
}

// Predecessors returns the indexes of the steps whose results the step's try receives: those it is after.
// The slice is shared: do not change it.
func (d *Definition) Predecessors(step int) []int { return d.graph.after[step] }

// Participants returns the names of all participants, sorted, each once.
func (d *Definition) Participants() []string {
	var names []string
	for _, s := range d.Steps {
		names = append(names, s.Participant)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// compile normalises, validates and derives the graph.
func (d *Definition) compile() error {
	d.normalise()
	if err := d.checkFields(); err != nil {
		return err
	}
	g, err := d.buildGraph()
	if err != nil {
		return err
	}
	d.graph = g
	return d.checkKinds()
}

// normalise writes the defaults out, so that a stored definition keeps its meaning when defaults change.
func (d *Definition) normalise() {
	if d.Version == 0 {
		d.Version = 1
	}
	if d.Timeout == 0 {
		d.Timeout = Duration(DefaultTimeout)
	}
	if d.OnExhausted == "" {
		d.OnExhausted = OnExhaustedCancel
	}
	d.Steps = slices.Clone(d.Steps)
	sequential := !slices.ContainsFunc(d.Steps, func(s StepDefinition) bool { return s.After != nil })
	for i := range d.Steps {
		s := &d.Steps[i]
		switch {
		case s.After == nil && sequential && i > 0:
			s.After = []string{d.Steps[i-1].Name}
		case s.After == nil:
			s.After = []string{}
		}
		if s.Kind == "" {
			s.Kind = KindSaga
		}
		if s.AttemptTimeout == 0 {
			s.AttemptTimeout = Duration(DefaultAttemptTimeout)
		}
		s.Retry = s.Retry.withDefaults()
		if s.OnExhausted == "" && s.Retry.Strategy == StrategyDeadLetter {
			s.OnExhausted = OnExhaustedDeadLetter
		}
		s.OnExhausted = cmp.Or(s.OnExhausted, d.OnExhausted)
	}
}

func (r Retry) withDefaults() Retry {
	r.Backoff = r.Backoff.withDefaults()
	tries, phaseTwo := DefaultTryAttempts, DefaultPhaseTwoTries
	if r.Strategy == StrategyDeadLetter {
		tries, phaseTwo = 1, 1
	}
	r.MaxAttempts, r.PhaseTwoAttempts = cmp.Or(r.MaxAttempts, tries), cmp.Or(r.PhaseTwoAttempts, phaseTwo)
	return r
}

// attemptsMax returns how many counted attempts an operation of the step has.
func (s *StepDefinition) attemptsMax(phase Phase) int {
	if phase == PhaseTry && s.Kind != KindRetriable {
		return s.Retry.MaxAttempts
	}
	return s.Retry.PhaseTwoAttempts
}

func (s *StepDefinition) attemptTimeout() time.Duration { return time.Duration(s.AttemptTimeout) }

// cancellable reports whether the step has a cancel of its own (a pivot's cancel is its fence).
func (k Kind) cancellable() bool { return k == KindSaga || k == KindTCC }
