package saga_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// How scripts are read.

// words splits at spaces outside of double quotes.
func words(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(strings.TrimPrefix(text, "+"))
	s.must(err == nil, "%v", err)
	return d
}

func (s *story) number(text string) int {
	n, err := strconv.Atoi(text)
	s.must(err == nil, "%v", err)
	return n
}

func (s *story) operation(text string) (string, saga.Phase) {
	step, phase, ok := strings.Cut(text, "/")
	s.must(ok, "want step/phase, got %s", text)
	return step, saga.Phase(phase)
}

// define reads a definition: JSON, or policies and one line for each step.
func (s *story) define(args, steps []string) *saga.Definition {
	if len(args) > 0 && args[0][0] == '{' {
		def, err := saga.ParseDefinition([]byte(args[0]))
		s.must(err == nil, "%v", err)
		return def
	}
	b := saga.Define("story")
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "timeout":
			b.Timeout(s.duration(value))
		case "on_exhausted":
			b.OnExhausted(saga.ExhaustionPolicy(value))
		default:
			s.must(false, "no such policy: %s", key)
		}
	}
	for _, line := range steps {
		s.defineStep(b, words(line))
	}
	def, err := b.Build()
	s.must(err == nil, "%v", err)
	return def
}

func (s *story) defineStep(b *saga.Builder, w []string) {
	name, participant := w[0], w[0]
	var options []saga.StepOption
	for _, arg := range w[2:] {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "participant":
			participant = value
		case "after":
			options = append(options, saga.After(strings.FieldsFunc(value, func(r rune) bool { return r == ',' })...))
		case "attempts":
			options = append(options, saga.Attempts(s.number(value)))
		case "phase2":
			options = append(options, saga.PhaseTwoAttempts(s.number(value)))
		case "timeout":
			options = append(options, saga.AttemptTimeout(s.duration(value)))
		case "dead_letters":
			options = append(options, saga.StraightToDeadLetters())
		case "on_exhausted":
			options = append(options, saga.WhenExhausted(saga.ExhaustionPolicy(value)))
		case "backoff":
			p := strings.Split(value, "/")
			options = append(options, saga.RetryBackoff(saga.Strategy(p[0]), s.duration(p[1]), s.duration(p[2])))
		default:
			s.must(false, "no such policy: %s", key)
		}
	}
	kinds := map[string]func(string, string, string, ...saga.StepOption) *saga.Builder{
		"saga": b.Saga, "tcc": b.TCC, "pivot": b.Pivot, "retriable": b.Retriable,
	}
	add := kinds[w[1]]
	s.must(add != nil, "no such kind: %s", w[1])
	add(name, participant, "act", options...)
}

// submission makes the transaction that will be submitted.
func (s *story) submission(args []string) {
	s.tx = newTransaction(s.def)
	s.tx.Deadline = s.now.Add(time.Duration(s.def.Timeout))
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch i := s.def.StepIndex(key); {
		case i >= 0:
			s.tx.Inputs[i] = saga.Payload{Data: []byte(value)}
		case key == "start":
			s.tx.StartAt = begin.Add(s.duration(value))
		case key == "deadline":
			s.tx.Deadline = begin.Add(s.duration(value))
		default:
			s.must(false, "no such step: %s", key)
		}
	}
}

// reply reads a reply to the operation's last attempt, or to another one.
func (s *story) reply(args []string) saga.Reply {
	step, phase := s.operation(args[0])
	r := saga.Reply{Step: step, Phase: phase, Attempt: 1, Revision: 1}
	if s.def.StepIndex(step) >= 0 {
		r = answer(s.def, s.tx, step, phase, "")
	}
	r.Outcome = saga.Outcome(args[1])
	for _, arg := range args[2:] {
		key, value, named := strings.Cut(arg, "=")
		if !named || strings.ContainsRune(`{["0123456789`, rune(arg[0])) {
			r.Result.Data = []byte(arg)
			continue
		}
		s.replyMember(&r, key, value)
	}
	return r
}

func (s *story) replyMember(r *saga.Reply, key, value string) {
	switch key {
	case "code":
		r.Code = value
	case "reason":
		reason, err := strconv.Unquote(value)
		s.must(err == nil, "%v", err)
		r.Reason = reason
	case "attempt":
		r.Attempt = s.number(value)
	case "revision":
		r.Revision = s.number(value)
	case "after":
		r.RetryAfter = s.duration(value)
	case "state":
		r.State = saga.BarrierState(value)
	case "type":
		r.Result.Type = value
	case "verb":
		r.Verb = saga.Verb(value)
	case "content":
		s.must(value == "other", "content=other")
		r.ContentSHA256[0]++
	default:
		s.must(false, "no such member of a reply: %s", key)
	}
}
