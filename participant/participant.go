package participant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

// Participant executes the actions of one name. Make one with New, add actions with Handle, then Run it.
type Participant struct {
	cfg     Config
	log     *slog.Logger
	tracer  trace.Tracer // nil: none
	barrier *Barrier

	mu       sync.Mutex
	running  bool
	sealed   bool // Run was called: no more actions
	handlers map[string]handler

	absolve absolve
	heard   atomic.Pointer[saga.ID] // the Saga-Floor of the last command; nil: none yet

	groups  groupLimits
	batches trial
	hooks   hooks // for tests
}

// New returns a participant that does nothing yet. It opens no connection.
func New(c Config) (*Participant, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := &Participant{cfg: c, log: c.Logger.With("component", "participant", "participant", c.Name), barrier: NewBarrier(c.Pool, c.LockTimeout), handlers: map[string]handler{}, groups: defaultGroupLimits}
	if c.Tracer != nil {
		p.tracer = c.Tracer.Tracer("github.com/sagacity-tx/sagacity/participant")
	}
	return p, nil
}

// Handle adds an action. It panics if the action's name is not valid (S1.7) or taken, if a function of the handler is
// missing, if an external action's lease is too short, or after Run was called: mistakes of the program that no run could repair.
func Handle(p *Participant, action string, h Handler) {
	if err := saga.CheckName("action", action); err != nil {
		panic("participant: " + err.Error())
	}
	if h == nil {
		panic("participant: the handler of action " + action + " is nil")
	}
	compiled := h.compile()
	if len(compiled.missing) > 0 {
		problem := fmt.Sprintf("participant: action %s is of kind %s and has no %v function", action, compiled.kind, compiled.missing)
		if compiled.why != "" {
			problem += ": " + compiled.why
		}
		panic(problem)
	}
	if x := compiled.external; x != nil {
		if err := x.checkLease(p.cfg.HandlerTimeout); err != nil {
			panic("participant: action " + action + ": " + err.Error())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sealed {
		panic("participant: action " + action + " was added after Run was called")
	}
	if _, taken := p.handlers[action]; taken {
		panic("participant: action " + action + " was added twice")
	}
	p.handlers[action] = compiled
}

// Name returns the participant's name.
func (p *Participant) Name() string { return p.cfg.Name }

// Actions returns the names of the actions, sorted.
func (p *Participant) Actions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.handlers))
	for name := range p.handlers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run takes commands and answers them until ctx ends; then it takes no more, finishes what is in hand within
// Config.DrainTimeout, and returns nil. It returns an error when the barrier is not installed or is of
// another version, when a stream or consumer has settings that a person must change, or when the NATS
// connection was closed for good. It may be called again after it has returned.
//
// PostgreSQL or NATS that cannot be reached is no error: commands wait.
func (p *Participant) Run(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	defer p.stop()
	if err := p.checkBarrier(ctx); err != nil {
		return err
	}
	b, err := bus.New(p.cfg.NATS, bus.Config{
		Name: p.cfg.Name, Prefix: p.cfg.Prefix, Manage: bus.ManageMissing, Logger: p.cfg.Logger,
	})
	if err != nil {
		return fmt.Errorf("participant: %w", err)
	}
	defer b.Close()
	retention, stop := context.WithCancel(ctx)
	var chores sync.WaitGroup
	chores.Go(func() { p.runRetention(retention) })
	defer func() { stop(); chores.Wait() }()
	p.log.InfoContext(ctx, "participant runs", "actions", p.Actions(), "concurrency", p.cfg.Concurrency)
	err = newIntake(ctx, p, b).run(ctx)
	if err != nil {
		return fmt.Errorf("participant %s: %w", p.cfg.Name, err)
	}
	p.log.InfoContext(ctx, "participant ended")
	return nil
}

func (p *Participant) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		return errors.New("participant: Run was called while it runs")
	}
	p.running, p.sealed = true, true
	return nil
}

func (p *Participant) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

// handler returns the action's handler. Run has sealed the map.
func (p *Participant) handler(action string) (handler, bool) {
	h, ok := p.handlers[action]
	return h, ok
}
