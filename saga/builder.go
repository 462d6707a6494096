package saga

import "time"

// Define begins a definition in Go; Build ends it:
//
//	def, err := saga.Define("transfer").
//		TCC("debit", "accounts", "debit").
//		TCC("credit", "accounts", "credit").
//		Build()
//
// Without After and Root the steps run in sequence.
func Define(name string) *Builder { return &Builder{def: Definition{Name: name}} }

// Builder gathers a definition. Its methods return it, so that calls chain.
type Builder struct{ def Definition }

// Saga adds a step that is compensated by its cancel.
func (b *Builder) Saga(name, participant, action string, options ...StepOption) *Builder {
	return b.step(KindSaga, name, participant, action, options)
}

// TCC adds a step that reserves in its try and settles in its confirm or cancel.
func (b *Builder) TCC(name, participant, action string, options ...StepOption) *Builder {
	return b.step(KindTCC, name, participant, action, options)
}

// Pivot adds the go/no-go step: it starts when every saga and tcc try is done, and its outcome decides.
func (b *Builder) Pivot(name, participant, action string, options ...StepOption) *Builder {
	return b.step(KindPivot, name, participant, action, options)
}

// Retriable adds a step that runs after the decision to commit and must go forward.
func (b *Builder) Retriable(name, participant, action string, options ...StepOption) *Builder {
	return b.step(KindRetriable, name, participant, action, options)
}

// Version sets the definition's version, from 1.
func (b *Builder) Version(v int) *Builder { b.def.Version = v; return b }

// Timeout sets the time from submission to the deadline.
func (b *Builder) Timeout(d time.Duration) *Builder { b.def.Timeout = Duration(d); return b }

// OnExhausted sets the policy of all steps that do not set their own.
func (b *Builder) OnExhausted(p ExhaustionPolicy) *Builder { b.def.OnExhausted = p; return b }

// Build validates the definition. Errors are *InvalidError.
func (b *Builder) Build() (*Definition, error) {
	d := b.def
	if err := d.compile(); err != nil {
		return nil, err
	}
	return &d, nil
}

// MustBuild is Build for definitions that are constants of a program; it panics on an invalid one.
func (b *Builder) MustBuild() *Definition {
	d, err := b.Build()
	if err != nil {
		panic(err)
	}
	return d
}

func (b *Builder) step(kind Kind, name, participant, action string, options []StepOption) *Builder {
	s := StepDefinition{Name: name, Kind: kind, Participant: participant, Action: action}
	for _, option := range options {
		option(&s)
	}
	b.def.Steps = append(b.def.Steps, s)
	return b
}

// StepOption sets a policy of one step.
type StepOption func(*StepDefinition)

// After makes the step start when the named steps' tries are done; it receives their results.
func After(steps ...string) StepOption {
	return func(s *StepDefinition) { s.After = append([]string{}, steps...) }
}

// Root makes the step start at once, beside the other roots.
func Root() StepOption { return func(s *StepDefinition) { s.After = []string{} } }

// AttemptTimeout sets how long to wait for the reply to one attempt.
func AttemptTimeout(d time.Duration) StepOption {
	return func(s *StepDefinition) { s.AttemptTimeout = Duration(d) }
}

// Attempts sets how many attempts of the try count before it is exhausted.
func Attempts(n int) StepOption { return func(s *StepDefinition) { s.Retry.MaxAttempts = n } }

// PhaseTwoAttempts sets how many attempts of a confirm, cancel, fence or retriable try count before it is
// a dead letter.
func PhaseTwoAttempts(n int) StepOption {
	return func(s *StepDefinition) { s.Retry.PhaseTwoAttempts = n }
}

// RetryBackoff sets the delays between attempts.
func RetryBackoff(strategy Strategy, base, limit time.Duration) StepOption {
	return func(s *StepDefinition) {
		s.Retry.Backoff = Backoff{Strategy: strategy, Base: Duration(base), Cap: Duration(limit)}
	}
}

// StraightToDeadLetters makes the operations of the step wait for a person instead of a retry (StrategyDeadLetter).
func StraightToDeadLetters() StepOption {
	return func(s *StepDefinition) { s.Retry = Retry{Backoff: Backoff{Strategy: StrategyDeadLetter}} }
}

// WhenExhausted sets what follows when the try used up its attempts.
func WhenExhausted(p ExhaustionPolicy) StepOption {
	return func(s *StepDefinition) { s.OnExhausted = p }
}
