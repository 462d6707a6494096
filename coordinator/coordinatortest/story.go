package coordinatortest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sagacity-tx/sagacity/saga"
)

// storyMax bounds how many of the first and of the last events are remembered.
const storyMax = 250

// story is what has happened, for when the test fails.
type story struct {
	first, last []string
	left        int // out between the two
}

// note remembers an event.
func (e *engine) note(format string, args ...any) {
	line, s := e.now.Format("02T15:04:05.000000 ")+fmt.Sprintf(format, args...), &e.story
	if len(s.first) < storyMax {
		s.first = append(s.first, line)
		return
	}
	if len(s.last) == storyMax {
		s.last = slices.Delete(s.last, 0, 1)
		s.left++
	}
	s.last = append(s.last, line)
}

func (e *engine) storyText() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := slices.Clone(e.story.first)
	if e.story.left > 0 {
		lines = append(lines, fmt.Sprintf("… %d more …", e.story.left))
	}
	return strings.Join(append(lines, e.story.last...), "\n")
}

// tell reports a mistake of the test, once.
func (e *engine) tell(format string, args ...any) {
	mistake := fmt.Sprintf(format, args...)
	if !e.told[mistake] && !e.stopped {
		e.told[mistake] = true
		e.note("mistake: %s", mistake)
		e.mistake(mistake)
	}
}

// short is the part of an id that differs.
func short(id saga.ID) string { return "…" + id.String()[24:] }

func operationText(cmd saga.Command) string {
	return fmt.Sprintf("%s %s/%s #%d of %s", short(cmd.Transaction), cmd.Step, cmd.Phase, cmd.Attempt, cmd.Participant)
}

func replyText(r saga.Reply) string {
	words := []string{string(r.Outcome)}
	for _, w := range []string{r.Code, r.Reason} {
		if w != "" {
			words = append(words, fmt.Sprintf("%+q", w))
		}
	}
	if r.Replayed {
		words = append(words, "(again)")
	}
	return strings.Join(words, " ")
}

func causeText(c saga.Cause) string {
	if c.Why == "" {
		return ""
	}
	return fmt.Sprintf(": %s %s %+q", c.Why, c.Step, c.Code)
}
