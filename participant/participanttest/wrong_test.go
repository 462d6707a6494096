package participanttest_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant/participanttest"
	"github.com/sagacity-tx/sagacity/saga"
)

var update = flag.Bool("update", false, "write the golden files")

// never reports whether a cancel comes for a step whose try never ran.
func never(row saga.BarrierRow, cmd saga.Command) bool {
	return cmd.Verb == saga.VerbExecute && cmd.Phase == saga.PhaseCancel && row.State == ""
}

// Participants that are wrong in one way each. The suite finds it, names the rule, and says what to do.
var bugs = []struct {
	name   string
	action string
	bug    bug
	wrong  []string // the checks that find it
}{
	{
		"no-tombstone", "hold",
		bug{enter: func(_ *handmade, row saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow) {
			if never(row, cmd) {
				return v, row // the cancel is not recorded
			}
			return v, next
		}},
		[]string{"null-cancel", "late-try", "confirm-after-cancel", "try-and-cancel-at-once", "any-order"},
	},
	{
		"new-reply-each-time", "take",
		bug{answer: func(h *handmade, cmd saga.Command, r saga.Reply) saga.Reply {
			if r.Replayed && cmd.Phase == saga.PhaseTry {
				h.runs++
				r.Result, r.Replayed = saga.Payload{Data: fmt.Appendf(nil, `{"run":%d}`, h.runs)}, false
			}
			return r
		}},
		[]string{"repeated-try", "conflict", "late-copy", "deadline", "refusal", "cancel-after-refusal", "two-steps", "copies-at-once", "any-order", "ack-after-reply", "reply-lost"},
	},
	{
		"success-for-refused-and-hanging", "hold",
		bug{answer: func(_ *handmade, cmd saga.Command, r saga.Reply) saga.Reply {
			if r.Outcome == saga.OutcomeRefused || r.Outcome == saga.OutcomeHanging {
				r.Outcome, r.Code, r.Reason = saga.OutcomeDone, "", ""
			}
			return r
		}},
		[]string{"deadline", "refusal", "cancel-after-refusal", "confirm-after-refusal", "late-try", "try-after-cancel", "try-and-cancel-at-once", "confirm-and-cancel-at-once", "any-order"},
	},
	{
		"cancel-fails-without-try", "take",
		bug{enter: func(_ *handmade, row saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow) {
			if never(row, cmd) {
				v.Reply.Outcome, v.Reply.Code, v.Reply.Reason = saga.OutcomeFault, saga.FaultHandler, "nothing to undo"
				return v, row
			}
			return v, next
		}},
		[]string{"null-cancel", "late-try", "try-and-cancel-at-once", "any-order"},
	},
	{
		"cancel-does-harm-without-try", "hold",
		bug{enter: func(h *handmade, row saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow) {
			if never(row, cmd) {
				h.do(cmd)
			}
			return v, next
		}},
		[]string{"null-cancel", "late-try", "confirm-after-cancel", "try-and-cancel-at-once", "any-order"},
	},
	{
		"confirm-each-time", "hold",
		bug{enter: func(h *handmade, row saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow) {
			if cmd.Phase == saga.PhaseConfirm && v.Do == saga.DoReply && v.Reply.Replayed {
				h.do(cmd)
			}
			return v, next
		}},
		[]string{"confirm", "confirm-conflict", "cancel-after-confirm", "confirm-and-cancel-at-once", "any-order", "phase-two-reply-lost"},
	},
	{
		"content-ignored", "hold",
		bug{content: func(row saga.BarrierRow, cmd saga.Command) saga.Command {
			if recorded := row.Recorded(cmd.Phase); recorded.ContentSHA256 != [32]byte{} {
				cmd.ContentSHA256 = recorded.ContentSHA256
			}
			return cmd
		}},
		[]string{"conflict", "cancel-conflict", "confirm-conflict"},
	},
	{
		"acknowledged-too-early", "tell",
		bug{ackFirst: true},
		[]string{"ack-after-reply"},
	},
	{
		"nothing-rolled-back", "take",
		bug{leaky: true},
		[]string{"failure", "refusal", "cancel-after-refusal"},
	},
	{
		"pivot-undone", "decide",
		bug{enter: func(h *handmade, row saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow) {
			if cmd.Phase == saga.PhaseCancel && row.State == saga.BarrierTried {
				return saga.Verdict{Do: saga.DoRun}, row
			}
			return v, next
		}},
		[]string{"fence-after-try", "try-and-cancel-at-once", "any-order"},
	},
	{
		"step-ignored", "hold",
		bug{stepless: true},
		[]string{"two-steps"},
	},
	{
		"step-ignored-without-cancel", "tell",
		bug{stepless: true},
		[]string{"two-steps"},
	},
	{
		"tombstone-for-all-steps", "take",
		bug{enter: func(h *handmade, row saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow) {
			for key, other := range h.rows {
				if v.Do == saga.DoRun && cmd.Phase == saga.PhaseTry && key.transaction == cmd.Transaction && other.State == saga.BarrierNullCancelled {
					return saga.Admit(other, cmd, time.Now())
				}
			}
			return v, next
		}},
		[]string{"two-steps"},
	},
	{
		"cancel-of-all-steps", "hold",
		bug{enter: func(h *handmade, _ saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow) {
			for key := range h.effects {
				if v.Do == saga.DoRun && cmd.Phase == saga.PhaseCancel && key.transaction == cmd.Transaction && key.step != cmd.Step {
					h.effects[key] = participanttest.Effect{}
				}
			}
			return v, next
		}},
		[]string{"two-steps"},
	},
	{
		"hash-of-the-body-alone", "take",
		bug{answer: func(_ *handmade, cmd saga.Command, r saga.Reply) saga.Reply {
			r.ContentSHA256 = sha256.Sum256(cmd.Body)
			return r
		}},
		[]string{"reply-repeats-command"},
	},
	{
		"revision-not-repeated", "tell",
		bug{answer: func(_ *handmade, _ saga.Command, r saga.Reply) saga.Reply {
			r.Revision = 1
			return r
		}},
		[]string{"reply-repeats-command"},
	},
	{
		"message-id-without-phase", "hold",
		bug{msgID: func(cmd saga.Command, r saga.Reply) string {
			return fmt.Sprintf("%s/%s/%s/%d/%s", cmd.Transaction, cmd.Step, cmd.Verb, cmd.Attempt, r.Outcome)
		}},
		[]string{"reply-message-id"},
	},
	{
		"message-id-without-attempt", "hold",
		bug{msgID: func(cmd saga.Command, r saga.Reply) string {
			attempt := cmd.Attempt
			if cmd.Phase != saga.PhaseTry { // of confirms and cancels only
				attempt = 0
			}
			return fmt.Sprintf("%s/%s/%d/%s", cmd.Key(), cmd.Verb, attempt, r.Outcome)
		}},
		[]string{"reply-message-id"},
	},
	{
		"message-id-without-step", "take",
		bug{msgID: func(cmd saga.Command, r saga.Reply) string {
			return fmt.Sprintf("%s/%s/%s/%d/%s", cmd.Transaction, cmd.Phase, cmd.Verb, cmd.Attempt, r.Outcome)
		}},
		[]string{"reply-message-id"},
	},
	{
		"message-id-without-outcome", "take",
		bug{msgID: func(cmd saga.Command, _ saga.Reply) string {
			return fmt.Sprintf("%s/%s/%d", cmd.Key(), cmd.Verb, cmd.Attempt)
		}},
		[]string{"reply-message-id"},
	},
	{
		"message-id-without-transaction", "tell",
		bug{msgID: func(cmd saga.Command, r saga.Reply) string {
			return fmt.Sprintf("%s/%s/%s/%d/%s", cmd.Step, cmd.Phase, cmd.Verb, cmd.Attempt, r.Outcome)
		}},
		[]string{"reply-message-id"},
	},
}

func TestWrong(t *testing.T) {
	t.Parallel()
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			h := startHandmade(t, b.bug)
			report, err := participanttest.Torture(t.Context(), h.config(testdb.NATS(t), b.action))
			if err != nil {
				t.Fatal(err)
			}
			wantWrong(t, report, b.wrong, b.name)
			if b.name == "no-tombstone" { // docs/testing.md shows a part of it
				wantGolden(t, "sample", []byte(report.String()))
			}
		})
	}
}

var transactionID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// wantWrong wants exactly these checks to be WRONG, with the texts of the golden file.
func wantWrong(t *testing.T, report participanttest.Report, names []string, golden string) {
	t.Helper()
	var got []string
	var text bytes.Buffer
	for _, c := range report.Checks {
		if c.Verdict == participanttest.Wrong {
			got = append(got, c.Name)
			fmt.Fprintf(&text, "%s  %s  %s  %s\n%s", c.Verdict, c.Action, c.Name, c.Rules, c.Text())
		}
	}
	if !slices.Equal(got, names) || report.OK() {
		t.Errorf("WRONG are %q, want %q\n%s", got, names, text.Bytes())
	}
	wantGolden(t, golden, transactionID.ReplaceAll(text.Bytes(), []byte("(transaction)")))
	for _, c := range report.Checks {
		if c.Verdict == participanttest.Wrong && (c.Rule == "" || c.Rules == "" || c.Expected == "" || c.Came == "" || c.Fix == "" || len(c.Sent) == 0 || strings.Contains(c.Text(), "%!")) {
			t.Errorf("%s does not say all: %+v", c.Name, c)
		}
	}
}

func wantGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("the texts are not those of %s (go test -update writes it):\n%s", path, got)
	}
}
