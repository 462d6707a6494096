package sagatest

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sagacity-tx/sagacity/saga"
)

//go:embed testdata/unreachable.txt
var unreachableText string

// pattern is a line of testdata/unreachable.txt.
type pattern struct {
	statuses, events, states, replies []string // nil: all; events: of a line about what is no reply
	reply                             bool
	reason                            string
}

var unreachable = sync.OnceValue(func() []pattern {
	var patterns []pattern
	for i, line := range strings.Split(unreachableText, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		cell, reason, ok := strings.Cut(line, ": ")
		fields := strings.Split(cell, " | ")
		if !ok || len(fields) < 2 || len(fields) > 3 {
			panic(fmt.Sprintf("testdata/unreachable.txt: line %d is not of the form cell: reason", i+1))
		}
		p := pattern{statuses: alternatives(fields[0]), reason: reason, reply: len(fields) == 3}
		if p.reply {
			p.states, p.replies = alternatives(fields[1]), alternatives(fields[2])
		} else {
			p.events = alternatives(fields[1])
		}
		patterns = append(patterns, p)
	}
	return patterns
})

func alternatives(s string) []string {
	if s == "*" {
		return nil
	}
	return strings.Split(s, ", ")
}

func (p *pattern) matches(c Cell) bool {
	in := func(list []string, s string) bool { return list == nil || slices.Contains(list, s) }
	if p.reply != (c.Event == "reply") || !in(p.statuses, statusName(c.Status)) {
		return false
	}
	if p.reply {
		return in(p.states, c.State) && in(p.replies, c.Reply)
	}
	return in(p.events, c.Event)
}

func statusName(s saga.Status) string {
	if s == "" {
		return "none"
	}
	return string(s)
}

// Unreachable returns why no run can reach the cell on a stored row; "" if one can.
func Unreachable(c Cell) string {
	for i := range unreachable() {
		if p := &unreachable()[i]; p.matches(c) {
			return p.reason
		}
	}
	return ""
}

// UnreachableReasons lists the reasons of testdata/unreachable.txt.
func UnreachableReasons() []string {
	var reasons []string
	for _, p := range unreachable() {
		reasons = append(reasons, p.reason)
	}
	return reasons
}
