package sagatest

import (
	"errors"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// bag is NATS JetStream as the rules assume it (C1): it loses, repeats, delays and reorders messages without bound,
// acknowledged ones too, and may be emptied at any time. What it does reliably is not relied on; what it does to
// messages with a known Nats-Msg-Id or a TTL is modelled because the product relies on getting past it (C3, C12).
type bag struct {
	w         *world
	downUntil instant
	wipes     int
	dedup     map[string]dedupEntry          // by Nats-Msg-Id
	consumers map[string]*consumer           // by name
	answered  map[string]bool                // attempts of which a reply was stored; for the check of B5
	accepted  map[string]bool                // ids of messages that were stored; for the check of C2
	past      []*message                     // replies that were stored: copies of them may come at any time
	pastOf    map[saga.ID]*[pasts][]*message // by transaction
	commands  []*message                     // that were stored
}

type dedupEntry struct {
	until instant
	body  string
}

// consumer is a durable consumer: each message goes to one of its members.
type consumer struct {
	name    string
	members []member
	waiting []*message // while no member lives
}

type member struct {
	proc *process
	take func(*delivery)
}

// message is one that is stored.
type message struct {
	wire.Message
	id      string // Nats-Msg-Id
	about   saga.ID
	to      *consumer
	expires instant // zero: never
	gone    bool    // acknowledged, expired or wiped
	wipes   int     // of the bag when it was stored
	turn    int     // how often it was sent
	quick   bool    // a copy of a command that haunts: no slow route holds it up
}

// delivery is one copy of a message at a process.
type delivery struct {
	*message
	bag *bag
	n   int
}

// Times of the bag.
const (
	dedupWindow    = 2 * time.Minute
	ackWait        = 30 * time.Second
	publishTimeout = 5 * time.Second
	delayMax       = 2 * time.Hour // of a copy in the network
)

// What publishing may end with.
var (
	errPublishTimeout = errors.New("no PubAck in time")
	errQueueFull      = errors.New("the subject's queue is full")
)

func newBag(w *world) *bag {
	return &bag{
		w: w, dedup: map[string]dedupEntry{}, consumers: map[string]*consumer{}, answered: map[string]bool{},
		accepted: map[string]bool{}, pastOf: map[saga.ID]*[pasts][]*message{},
	}
}

func (b *bag) consumer(name string) *consumer {
	c := b.consumers[name]
	if c == nil {
		c = &consumer{name: name}
		b.consumers[name] = c
	}
	return c
}

// join adds a member to a consumer.
func (b *bag) join(name string, p *process, take func(*delivery)) {
	c := b.consumer(name)
	c.members = append(c.members, member{proc: p, take: take})
}

// consumerOf returns the name of the consumer that a subject's messages go to.
func consumerOf(subject string) string {
	if _, participant, err := wire.ParseCommandSubject(subject); err == nil {
		return participant
	}
	return replies
}

// replies is the consumer of all replies, which the coordinators share.
const replies = "coordinators"

// publish sends a message; done is called in the process with what came of it. The message may be stored whatever is
// answered, and whether or not the process lives to hear it.
func (b *bag) publish(p *process, m wire.Message, about saga.ID, done func(error)) {
	w := b.w
	life := p.life
	unsent := p.cut()
	w.after(w.hop(), func() {
		switch {
		case unsent || w.now < b.downUntil || w.chance(publishLost):
			p.answer(life, w.between(time.Millisecond, publishTimeout), func() { done(errPublishTimeout) })
			return
		case w.chance(publishBlocked):
			p.answer(life, w.hop(), func() { done(errQueueFull) })
			return
		}
		if consumerOf(m.Subject) == replies {
			b.answered[attemptKey(m)] = true
		}
		b.accepted[first(m.Header, wire.HeaderMsgID)] = true
		b.store(m, about)
		if w.chance(pubAckLost) {
			p.answer(life, publishTimeout, func() { done(errPublishTimeout) })
			return
		}
		p.answer(life, w.hop(), func() { done(nil) })
	})
}

// store keeps a message unless its id is known, and sends it on its way.
func (b *bag) store(m wire.Message, about saga.ID) {
	w := b.w
	stored := &message{Message: m, about: about, to: b.consumer(consumerOf(m.Subject)), wipes: b.wipes}
	if ids := m.Header[wire.HeaderMsgID]; len(ids) > 0 {
		stored.id = ids[0]
		w.checkPublished(stored)
		if known, ok := b.dedup[stored.id]; ok && w.now < known.until {
			w.checkSwallowed(stored, known)
			return
		}
		b.dedup[stored.id] = dedupEntry{until: w.now.add(dedupWindow), body: attemptOf(m)}
	}
	if ttl := m.Header[wire.HeaderTTL]; len(ttl) > 0 {
		if d, err := time.ParseDuration(ttl[0]); err == nil {
			stored.expires = w.now.add(d)
		}
	}
	if stored.to.name == replies {
		if len(b.past) < pastMax || first(m.Header, wire.HeaderVerb) == string(saga.VerbReserve) {
			b.past = append(b.past, stored)
		}
	} else if len(b.commands) < pastMax {
		b.commands = append(b.commands, stored)
	}
	b.remember(about, stored)
	if w.chance(messageLost) {
		return
	}
	b.send(stored)
	if w.chance(messageDuplicated) {
		w.after(w.tail(time.Millisecond, delayMax), func() { b.send(stored) })
	}
}

// pastMax bounds the replies that are kept to be delivered again, of all and of one transaction.
const (
	pastMax   = 2000
	pastOfMax = 50
)

// echo delivers n of the replies that were ever stored once more, whatever has become of them: the network repeats without
// bound, and what is late by hours meets other states than what is late by seconds.
func (b *bag) echo(n int, within time.Duration) {
	for range min(n, len(b.past)) {
		b.again(b.past[b.w.rnd.IntN(len(b.past))], within)
	}
}

// echoCommands is echo, for commands.
func (b *bag) echoCommands(n int, within time.Duration) {
	for range min(n, len(b.commands)) {
		b.again(b.commands[b.w.rnd.IntN(len(b.commands))], within)
	}
}

// echoAll delivers each of them once more.
func (b *bag) echoAll(within time.Duration) {
	for _, m := range b.past {
		b.again(m, within)
	}
}

// haunt delivers some of the messages of one transaction once more, now: those too that are still on their way.
func (b *bag) haunt(id saga.ID, n int) {
	past := b.pastOf[id]
	for range n {
		if past == nil {
			return
		}
		if of := past[b.w.rnd.IntN(pasts)]; len(of) > 0 {
			copied := *of[b.w.rnd.IntN(len(of))]
			copied.quick = copied.to.name != replies
			b.again(&copied, 100*time.Millisecond)
		}
	}
}

// What is kept of a transaction. Answers to inquiries are many, and those to reservations few.
const (
	pastReplies = iota
	pastStates
	pastReservations
	pastCommands
	pasts
)

// remember keeps a message for haunt; of many any.
func (b *bag) remember(id saga.ID, m *message) {
	past := b.pastOf[id]
	if past == nil {
		past = &[pasts][]*message{}
		b.pastOf[id] = past
	}
	of := &past[pastReplies]
	switch verb := first(m.Header, wire.HeaderVerb); {
	case m.to.name != replies:
		of = &past[pastCommands]
	case verb == string(saga.VerbInquire):
		of = &past[pastStates]
	case verb == string(saga.VerbReserve):
		of = &past[pastReservations]
	}
	if len(*of) < pastOfMax {
		*of = append(*of, m)
		return
	}
	(*of)[b.w.rnd.IntN(pastOfMax)] = m
}

func (b *bag) again(m *message, within time.Duration) {
	copied := *m
	copied.gone, copied.wipes, copied.expires, copied.turn = false, b.wipes, 0, 0
	b.w.after(b.w.between(0, within), func() { b.send(&copied) })
}

// attemptKey names the attempt that a command is, or that a reply answers.
func attemptKey(m wire.Message) string {
	return strings.Join([]string{
		first(m.Header, wire.HeaderTransaction), first(m.Header, wire.HeaderStep), first(m.Header, wire.HeaderPhase),
		first(m.Header, wire.HeaderVerb), first(m.Header, wire.HeaderAttempt),
	}, "/")
}

// attemptOf names what a message with a known id may not differ in.
func attemptOf(m wire.Message) string {
	return strings.Join(m.Header[wire.HeaderAttempt], "") + strings.Join(m.Header[wire.HeaderOutcome], "")
}

// send takes a message out of the store to a member, later again if it is not acknowledged.
func (b *bag) send(m *message) {
	w := b.w
	if m.gone || m.wipes != b.wipes {
		return
	}
	if m.expires > 0 && w.now >= m.expires {
		m.gone = true
		return
	}
	to, ok := w.anyAlive(m.to.members)
	if !ok {
		m.to.waiting = append(m.to.waiting, m)
		return
	}
	m.turn++
	turn := m.turn
	travel := w.between(50*time.Microsecond, 5*time.Millisecond)
	switch {
	case w.chance(messageDelayed):
		travel = w.tail(10*time.Millisecond, delayMax)
	case w.slow(m) && w.often(messageDelayed, slowChance):
		travel = w.tail(2*time.Second, delayMax)
	}
	d := &delivery{message: m, bag: b, n: turn}
	to.proc.after(travel, func() { to.take(d) })
	w.after(travel+ackWait, func() {
		if m.turn == turn { // or another copy has taken over
			b.send(m)
		}
	})
}

func (w *world) anyAlive(members []member) (member, bool) {
	start := w.rnd.IntN(max(1, len(members)))
	for i := range members {
		m := members[(start+i)%len(members)]
		if m.proc.alive && !m.proc.cut() {
			return m, true
		}
	}
	return member{}, false
}

// resume sends what has waited for a member to live.
func (b *bag) resume(name string) {
	c := b.consumer(name)
	waiting := c.waiting
	c.waiting = nil
	for _, m := range waiting {
		b.w.after(b.w.between(time.Millisecond, 100*time.Millisecond), func() { b.send(m) })
	}
}

// ack acknowledges a delivery: the message does not come again, unless the acknowledgement is lost.
func (d *delivery) ack() {
	b := d.bag
	b.w.checkAcked(d)
	if b.w.chance(ackLost) {
		return
	}
	b.w.after(b.w.hop(), func() { d.gone = true })
}

// nak asks for the message again, soon.
func (d *delivery) nak() {
	d.bag.w.after(d.bag.w.between(time.Millisecond, time.Second), func() { d.bag.send(d.message) })
}

// term ends a message that nobody understands.
func (d *delivery) term() { d.gone = true }

// wipe empties the store, what it knows of ids too. Copies in the network go on.
func (b *bag) wipe() {
	b.wipes++
	clear(b.dedup)
	for _, c := range b.consumers {
		c.waiting = nil
	}
	b.w.note(noID, "bag", "is wiped")
}

// garbage puts something into a queue that nobody understands (C5).
func (b *bag) garbage() {
	w := b.w
	m := wire.Message{Header: wire.Header{}, Data: []byte("garbage")}
	m.Subject = wire.ReplySubject(prefix, w.participants[0].name, 0)
	if w.rnd.IntN(2) == 0 {
		m.Subject = wire.CommandSubject(prefix, w.participants[w.rnd.IntN(len(w.participants))].name)
	}
	b.store(m, noID)
}

// prefix of all subjects.
const prefix = "saga"
