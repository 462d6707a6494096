package coordinatortest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// engine is the coordinator itself: everything that it knows, under one lock. Events are judged one after the other;
// what follows from one is planned in the agenda, so that nothing calls back into what called it.
type engine struct {
	mistake func(string)
	caller  coordinator.Caller
	time    timeMode
	ctx     context.Context // of user code; ends with stop
	cancel  context.CancelFunc
	code    sync.WaitGroup // user code that runs

	mu      sync.Mutex
	now     time.Time
	rnd     *rand.Rand
	agenda  agenda
	timer   *time.Timer // with real time: for what is due next
	running int         // functions of the test and real handlers under way
	changed chan struct{}
	stopped bool

	transactions map[saga.ID]*kept
	submitted    []*kept // all, in order
	live         []*kept // those that may not have ended
	requests     map[string]*kept
	definitions  []coordinator.RegisteredDefinition // by name, the newest version first
	letters      []*dlq.DeadLetter                  // in the order they were made
	approvals    []*dlq.Approval                    // in the order they were made
	audit        []dlq.AuditEntry
	pauses       []coordinator.Paused  // the oldest first
	heard        map[string]saga.Heard // when each participant replied last (S2.8)
	participants map[string]executor
	steps        map[stepKey][]saga.Command // steps in hand, and the commands that wait for them
	faults       []*fault
	calls        []*Call
	story        story
	told         map[string]bool // mistakes that were reported
}

// kept is a transaction.
type kept struct {
	coordinator.Kept
	attempts []saga.AttemptEnd
	wakes    int // since somebody last did something about it
}

// stepKey names what runs one command at a time.
type stepKey struct {
	transaction saga.ID
	step        string
}

// executor executes commands. start calls end once, at once or later, with the lock held: with the reply, or with nil
// if there is none.
type executor interface {
	start(e *engine, cmd saga.Command, end func(*saga.Reply))
}

// natsPrefix begins the subjects of encoded messages.
const natsPrefix = "saga"

func newEngine(mistake func(string)) *engine {
	e := &engine{
		mistake: mistake, caller: coordinator.Caller{Tenant: "default", Client: "anonymous"},
		now: wallClock(), rnd: rand.New(rand.NewPCG(1, 1)), changed: make(chan struct{}), // the same delays in every run
		transactions: map[saga.ID]*kept{}, requests: map[string]*kept{}, heard: map[string]saga.Heard{},
		participants: map[string]executor{}, steps: map[stepKey][]saga.Command{}, told: map[string]bool{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// stop ends everything and waits for user code.
func (e *engine) stop() {
	e.cancel()
	e.mu.Lock()
	e.stopped = true
	if e.timer != nil {
		e.timer.Stop()
	}
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	e.code.Wait()
}

// do is the one way in for events from outside: it judges, and lets happen what follows.
func (e *engine) do(k *kept, ev saga.Event, by *dlq.AuditEntry, expected int64) error {
	k.wakes = 0
	err := e.judge(k, ev, by, expected)
	e.pump(time.Time{})
	return err
}

// judge decides about one event as a lane of the coordinator does, and keeps what it leads to.
func (e *engine) judge(k *kept, ev saga.Event, by *dlq.AuditEntry, expected int64) error {
	e.tick()
	j, err := saga.Judge(saga.Case{Def: k.Def, Tx: k.Tx, Expected: expected, Event: ev}, e.now, e.rnd)
	for i := range j.Effects.Incidents {
		e.note("%s incident: %s", short(k.Tx.ID), j.Effects.Incidents[i].Problem)
	}
	if err != nil {
		return err
	}
	before := k.Tx.Status
	k.Tx, j.Effects = saga.Park(k.Def, j.Tx, j.Effects, e, e.now)
	if j.Effects.Changed {
		k.Tx.Version++
	}
	if j.Effects.Changed || j.MoveTimer {
		k.WakeAt = j.Effects.Wake
	}
	k.attempts = append(k.attempts, j.Effects.Attempts...)
	for _, entry := range coordinator.Audit(by, ev, j) {
		e.record(entry)
	}
	for i := range j.Effects.DeadLetters {
		e.changeLetter(k, &j.Effects.DeadLetters[i])
	}
	if k.Tx.Status != before {
		e.note("%s is %s%s", short(k.Tx.ID), k.Tx.Status, causeText(k.Tx.Cause))
	}
	for i := range j.Effects.Commands {
		e.send(&j.Effects.Commands[i])
	}
	return nil
}

// send gives a command to the wire, and to the faults that are planned for it.
func (e *engine) send(cmd *saga.Command) {
	_, decoded, err := transmit(cmd)
	if err != nil {
		e.mistake("a command cannot be sent: " + err.Error())
		return
	}
	deliver := func() { e.deliver(decoded) }
	switch f := e.fault(decoded, disturbsCommand); {
	case f == nil:
		e.agenda.add(e.now, deliver)
	case f.kind == faultLose:
		e.note("%s the command is lost", operationText(decoded))
	case f.kind == faultDuplicate:
		e.note("%s the command is delivered twice", operationText(decoded))
		e.agenda.add(e.now, deliver)
		e.agenda.add(e.now, deliver)
	default:
		e.note("%s the command is late by %s", operationText(decoded), f.late)
		e.agenda.add(e.now.Add(f.late), deliver)
	}
}

// transmit encodes a command as the coordinator sends it, and decodes it as a participant gets it.
func transmit(cmd *saga.Command) (wire.Message, saga.Command, error) {
	cmd.ReplyTo = wire.ReplySubject(natsPrefix, cmd.Participant, 0)
	m, err := wire.EncodeCommand(natsPrefix, *cmd)
	if err != nil {
		return m, saga.Command{}, err
	}
	decoded, err := wire.DecodeCommand(m)
	return m, decoded, err
}

// deliver brings a command to its participant. Commands of one step run one after the other, as in a participant.
func (e *engine) deliver(cmd saga.Command) {
	key := stepKey{cmd.Transaction, cmd.Step}
	if waiting, busy := e.steps[key]; busy {
		e.steps[key] = append(waiting, cmd)
		return
	}
	p, ok := e.participants[cmd.Participant]
	if !ok {
		e.tell("step %s calls participant %q, which the test has not made: it is silent", cmd.Step, cmd.Participant)
		return
	}
	e.steps[key] = nil
	e.start(p, cmd)
}

// start begins a command; when it ends its reply is sent, and the next one of its step begins.
func (e *engine) start(p executor, cmd saga.Command) {
	p.start(e, cmd, func(reply *saga.Reply) {
		if reply != nil {
			e.answer(cmd, *reply)
		}
		key := stepKey{cmd.Transaction, cmd.Step}
		waiting := e.steps[key]
		if len(waiting) == 0 {
			delete(e.steps, key)
			return
		}
		e.steps[key] = waiting[1:]
		e.start(p, waiting[0])
	})
}

// answer gives a reply to the wire.
func (e *engine) answer(cmd saga.Command, reply saga.Reply) {
	reply.Participant = cmd.Participant
	e.note("%s %s", operationText(cmd), replyText(reply))
	if e.fault(cmd, disturbsReply) != nil {
		e.note("%s the reply is lost", operationText(cmd))
		return
	}
	m, err := wire.EncodeReply(reply, cmd.ReplyTo)
	if err == nil {
		reply, err = wire.DecodeReply(m)
	}
	if err != nil {
		e.mistake("a reply cannot be sent: " + err.Error())
		return
	}
	e.agenda.add(e.now, func() {
		e.tick() // it comes after whatever was sent before
		e.heard[reply.Participant] = e.heard[reply.Participant].After(reply.Key(), e.now)
		_ = e.judge(e.transactions[reply.Transaction], saga.Replied{Reply: reply}, nil, 0) // an incident is noted
	})
}

// spawn runs user code on a goroutine of its own, without the lock, and then with the lock what it returned. died runs
// instead if the code ends its goroutine, as t.FailNow does.
func (e *engine) spawn(code func() (after func()), died func()) {
	e.running++
	e.code.Go(func() {
		after := died
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.running--
			if !e.stopped {
				after()
			}
			e.pump(time.Time{})
		}()
		after = code()
	})
}
