package participanttest

import (
	"fmt"
	"strings"

	"github.com/sagacity-tx/sagacity/saga"
)

// Verdict is what became of a check.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Wrong   Verdict = "WRONG"
	LeftOut Verdict = "left out" // what it needs was not given, see Check.Reason
)

// Report is the result of a run, for people (String) and for programs (as JSON).
type Report struct {
	Participant string  `json:"participant"`
	Seed        uint64  `json:"seed"`
	Checks      []Check `json:"checks"`
}

// Check is one check of one action.
type Check struct {
	Action  string    `json:"action"`
	Kind    saga.Kind `json:"kind"`
	Name    string    `json:"name"`
	Rules   string    `json:"rules"` // ids on the page docs/rules.md
	Verdict Verdict   `json:"verdict"`
	Reason  string    `json:"reason,omitempty"` // why it was left out

	// Of what is WRONG.
	Rule     string   `json:"rule,omitempty"`     // what the rules say, in a sentence
	Sent     []string `json:"sent,omitempty"`     // what was sent and what came back, in that order
	Expected string   `json:"expected,omitempty"` // after the last of Sent
	Came     string   `json:"came,omitempty"`
	Fix      string   `json:"fix,omitempty"` // what to do about it
}

// Count returns how many checks have a verdict.
func (r Report) Count(v Verdict) (n int) {
	for _, c := range r.Checks {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

// OK reports whether nothing is wrong. What was left out does not count.
func (r Report) OK() bool { return len(r.Checks) > 0 && r.Count(Wrong) == 0 }

// String returns the table: a line for each check, what is to be known about each that is WRONG, and a last line
// with the numbers.
func (r Report) String() string {
	var b strings.Builder
	action, name := 0, 0
	for _, c := range r.Checks {
		action, name = max(action, len(c.Action)), max(name, len(c.Name))
	}
	for _, c := range r.Checks {
		line := fmt.Sprintf("%-8s  %-*s  %-*s  %s", c.Verdict, action, c.Action, name, c.Name, c.Rules)
		if c.Reason != "" {
			line += ": " + c.Reason
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if c.Verdict == Wrong {
			b.WriteString(c.Text())
		}
	}
	fmt.Fprintf(&b, "participant %s: %d ok, %d WRONG, %d left out (seed %d)\n",
		r.Participant, r.Count(OK), r.Count(Wrong), r.Count(LeftOut), r.Seed)
	return b.String()
}

// Text returns what is to be known about a check that is WRONG, as lines; "" for others.
func (c Check) Text() string {
	if c.Verdict != Wrong {
		return ""
	}
	var b strings.Builder
	head := "sent"
	fmt.Fprintf(&b, "    %-8s  %s\n", "rule", c.Rule)
	for i, line := range c.Sent {
		fmt.Fprintf(&b, "    %-8s  %d. %s\n", head, i+1, line)
		head = ""
	}
	fmt.Fprintf(&b, "    %-8s  %s\n    %-8s  %s\n    %-8s  %s\n", "expected", c.Expected, "came", c.Came, "do", c.Fix)
	return b.String()
}
