package saga

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The words of explanations.

// when says an instant as people say it and as clocks show it.
func (x *explainer) when(t time.Time) string {
	switch d := t.Sub(x.now); {
	case t.IsZero():
		return "at an unknown time"
	case d > 0:
		return "in " + roughly(d) + " (" + clockTime(t) + ")"
	default:
		return roughly(-d) + " ago (" + clockTime(t) + ")"
	}
}

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// roughly rounds a duration to what matters at its size.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return withoutZeros(d.Round(time.Second))
	case d < 2*day:
		return withoutZeros(d.Round(time.Minute))
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}

// withoutZeros writes 1m0s as 1m, and 2h0m0s as 2h.
func withoutZeros(d time.Duration) string {
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

// saidBytesMax bounds how much of a participant's or client's text a sentence holds.
const saidBytesMax = 200

// said appends what somebody said, quoted: it may be any text.
func said(code, reason string) string {
	var parts []string
	if code != "" {
		parts = append(parts, "code "+quote(code))
	}
	if reason != "" {
		parts = append(parts, quote(reason))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// quote quotes text so that it is one line, cannot command a terminal and is not long.
func quote(s string) string {
	if cut := CleanText(s, saidBytesMax); cut != s && len(s) > saidBytesMax {
		return strconv.Quote(cut) + "…"
	}
	return strconv.Quote(s)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// namesMax bounds how many operations a sentence names.
const namesMax = 5

// enumerate joins names as people do, and only counts those beyond a few.
func enumerate(names []string) string {
	if n := len(names); n > namesMax {
		return strings.Join(names[:namesMax], ", ") + " and " + strconv.Itoa(n-namesMax) + " more"
	}
	switch n := len(names); n {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// subject joins names with the verb that fits their number.
func subject(names []string, one, many string) string {
	if len(names) == 1 {
		return names[0] + " " + one
	}
	return enumerate(names) + " " + many
}

// name names an operation: "try of step take", "fence of pivot pay".
func (x *explainer) name(step int, phase Phase) string {
	s := &x.def.Steps[step]
	if x.isFence(step, phase) {
		return "fence of pivot " + s.Name
	}
	kind := "step"
	if s.Kind == KindPivot {
		kind = "pivot"
	}
	return string(phase) + " of " + kind + " " + s.Name
}

// to names who executes a step.
func (x *explainer) to(step int) string {
	s := &x.def.Steps[step]
	return fmt.Sprintf("participant %s (action %s)", s.Participant, s.Action)
}
