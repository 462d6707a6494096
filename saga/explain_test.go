package saga_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sagacity-tx/sagacity/saga"
)

// TestExplain runs the stories under testdata/explain, one for each situation that people ask about at 3 a.m.: they
// are scripts with "> explain" between (E1).
func TestExplain(t *testing.T) {
	files, err := filepath.Glob("testdata/explain/*.txt")
	if err != nil || len(files) < 18 {
		t.Fatalf("found %d stories: %v", len(files), err)
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

// explain prints what people are told now.
func (s *story) explain() string {
	e := saga.Explain(s.def, s.tx, s.now)
	var b strings.Builder
	for _, sentence := range e.Sentences() {
		b.WriteString("  " + sentence + "\n")
	}
	return b.String()
}

// checkExplanation checks what holds of every explanation.
func checkExplanation(def *saga.Definition, tx saga.Transaction, now time.Time, must func(ok bool, format string, args ...any)) {
	e := saga.Explain(def, tx, now)
	for _, sentence := range e.Sentences() {
		must(strings.HasSuffix(sentence, ".") && !strings.ContainsFunc(sentence, func(r rune) bool { return !unicode.IsPrint(r) }), "E1: %q", sentence)
		must(!strings.Contains(sentence, "%!") && !strings.Contains(sentence, "  "), "E1: %q", sentence)
	}
	must(len(e.State) > 0 && len(e.Options) > 0, "E1: %s is not explained", tx.Status)
	must(tx.Status.Terminal() == (len(e.Next) == 0), "E1: what happens next while %s: %d sentences", tx.Status, len(e.Next))
	open, waits := 0, 0
	for _, s := range tx.Steps {
		for _, op := range []saga.Operation{s.Try, s.Settle} {
			if op.State.Open() && !tx.Status.Terminal() {
				open++
			}
		}
	}
	for _, w := range e.Waits {
		must(w.For != "" && w.Participant != "" && w.AttemptsLeft >= 0, "E1: %+v", w)
		if w.For == saga.WaitForOperations {
			must(len(w.On) > 0, "E1: %s/%s waits for nothing", w.Step, w.Phase)
		}
		if w.State != saga.OperationIdle {
			waits++
		}
	}
	must(open == waits, "E1: %d operations are open and %d are explained", open, waits)
	for _, o := range e.Options {
		must(o.Possible == (o.Code == "") && (o.Possible || !o.Changes), "E1: %+v", o)
	}
}

// Text of others is quoted: it can be no sentence of ours, no second line, and commands no terminal.
func TestExplainQuotes(t *testing.T) {
	def, err := saga.Define("story").TCC("take", "bank", "act").Build()
	if err != nil {
		t.Fatal(err)
	}
	tx, _, err := saga.Step(def, newTransaction(def), saga.Submitted{}, begin, slowest{})
	if err != nil {
		t.Fatal(err)
	}
	hostile := "no \x1b[2J\n\u202e\"evil\" \xff" + strings.Repeat("x", 900)
	r := answer(def, tx, "take", saga.PhaseTry, saga.OutcomeRetry)
	r.Code, r.Reason = "co\nde", hostile
	if tx, _, err = saga.Step(def, tx, saga.Replied{Reply: r}, begin, slowest{}); err != nil {
		t.Fatal(err)
	}
	e := saga.Explain(def, tx, begin)
	text := strings.Join(e.Sentences(), "")
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !strings.Contains(text, `\x1b[2J\n\u202e\"evil\"`) {
		t.Errorf("got %q", text)
	}
	if len(e.Waits[0].Text) > 600 {
		t.Errorf("a sentence has %d bytes", len(e.Waits[0].Text))
	}
}
