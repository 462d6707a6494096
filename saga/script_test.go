package saga_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// TestScripts runs the stories under testdata/scripts. A story is a text file: lines that begin with # are for
// the reader, "> " begins a command, "| " continues it, and what follows is what the code answers. Delays
// are the longest possible ones. The commands:
//
//	define [timeout=1m] [on_exhausted=dead_letter]     the steps follow, one a line (or: define {JSON}):
//	| name kind [participant=p] [after=a,b] [attempts=2] [phase2=2] [timeout=5s] [backoff=fixed/1s/1m] [on_exhausted=…] [dead_letters]
//	submit [step=input …] [start=+1h] [deadline=+1m]
//	reply step/phase outcome [result] [code=…] [reason="…"] [attempt=1] [revision=1] [after=5s] [state=tried] [type=…]
//	wake · next (moves the clock to the next wake and wakes) · heard participant (it answered another operation)
//	cancel · replay step/phase · edit step/phase input · discard step/phase · resolve
//	explain                                            (only under testdata/explain: see TestExplain)
//	at +10s command                                    moves the clock first
//
// The runner itself checks that an event that changes nothing leaves the transaction equal, that attempts never
// restart (S1.1) and that all attempts of an operation have the same bytes (S1.4).
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d scripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, playScript(t, file, string(text)))
		})
	}
}

// playScript runs every command and returns the text with the answers that the code gives.
func playScript(t *testing.T, file, text string) string {
	s := &story{t: t, now: begin, heard: map[string]saga.Heard{}, sent: map[string]saga.Command{}}
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	commands := 0
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		if !strings.HasPrefix(line, "> ") {
			if line == "" || line[0] == '#' {
				out.WriteString(line + "\n")
			} // else an answer of an earlier run
			continue
		}
		s.at = fmt.Sprintf("%s:%d", file, i)
		out.WriteString(line + "\n")
		var more []string
		for ; i < len(lines) && strings.HasPrefix(lines[i], "| "); i++ {
			more = append(more, lines[i][2:])
			out.WriteString(lines[i] + "\n")
		}
		out.WriteString(s.run(words(line[2:]), more))
		commands++
	}
	if commands == 0 {
		t.Fatalf("%s has no commands", file)
	}
	return out.String()
}

// story is a script's transaction so far.
type story struct {
	t     *testing.T
	at    string // file:line of the command
	def   *saga.Definition
	tx    saga.Transaction
	wake  time.Time
	now   time.Time
	heard map[string]saga.Heard
	sent  map[string]saga.Command // the last command of each operation
}

// run executes one command and returns the answer as text.
func (s *story) run(cmd, more []string) string {
	args := cmd[1:]
	switch cmd[0] {
	case "define":
		s.def = s.define(args, more)
		return ""
	case "at":
		now := begin.Add(s.duration(args[0]))
		s.must(!now.Before(s.now), "time goes backwards")
		s.now = now
		return s.run(args[1:], more)
	case "heard":
		s.heard[args[0]] = s.heard[args[0]].After(saga.OperationKey{}, s.now)
		return ""
	case "next":
		s.must(!s.wake.IsZero(), "nothing is due")
		s.now = s.wake
		return s.step(saga.Woken{Heard: s.heard})
	case "wake":
		return s.step(saga.Woken{Heard: s.heard})
	case "submit":
		s.submission(args)
		return s.step(saga.Submitted{})
	case "reply":
		r := s.reply(args)
		answer := s.step(saga.Replied{Reply: r})
		s.heard[r.Participant] = s.heard[r.Participant].After(r.Key(), s.now)
		return answer
	case "cancel":
		return s.step(saga.CancelRequested{Reason: strings.Join(args, " ")})
	case "replay":
		step, phase := s.operation(args[0])
		return s.step(saga.ReplayRequested{Step: step, Phase: phase})
	case "edit":
		step, phase := s.operation(args[0])
		return s.step(saga.EditRequested{Step: step, Phase: phase, Input: saga.Payload{Data: []byte(args[1])}})
	case "discard":
		step, phase := s.operation(args[0])
		return s.step(saga.DiscardRequested{Step: step, Phase: phase})
	case "resolve":
		return s.step(saga.ResolveRequested{})
	case "explain":
		return s.explain()
	}
	s.must(false, "no such command: %s", cmd[0])
	return ""
}

// step puts the event to the transition function and prints what it answers.
func (s *story) step(ev saga.Event) string {
	before := s.tx
	next, effects, err := saga.Step(s.def, s.tx, ev, s.now, slowest{})
	if err != nil {
		s.must(reflect.DeepEqual(next, before), "a refused event changed the transaction")
		return "  refused: " + printStateError(err) + "\n"
	}
	s.must(effects.Changed || reflect.DeepEqual(next, before), "changed without saying so")
	s.tx, s.wake = next, effects.Wake
	checkExplanation(s.def, s.tx, s.now, s.must)
	var again []bool
	for _, c := range effects.Commands {
		again = append(again, s.check(c))
	}
	return printStep(s.def, next, effects, again)
}

// check compares the command with the operation's former ones and reports whether there were any.
func (s *story) check(c saga.Command) bool {
	key := c.Step + "/" + string(c.Phase)
	former, again := s.sent[key]
	s.must(c.Attempt == former.Attempt+1, "S1.1: %s attempt %d follows attempt %d", key, c.Attempt, former.Attempt)
	if again {
		same := string(c.Body) == string(former.Body) && c.ContentSHA256 == former.ContentSHA256
		s.must((same && c.Revision == former.Revision || !same && c.Revision == former.Revision+1) && c.Deadline.Equal(former.Deadline),
			"S1.4, S1.5: %s changed between attempts", key)
	}
	s.must(c.ContentSHA256 == saga.ContentSHA256(c.Action, c.Body), "S1.4: the hash is another body's")
	s.sent[key] = c
	return again
}

func (s *story) must(ok bool, format string, args ...any) {
	s.t.Helper()
	if !ok {
		s.t.Fatalf("%s: %s", s.at, fmt.Sprintf(format, args...))
	}
}
