package saga_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sagacity-tx/sagacity/saga"
)

var (
	admitNow   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	admitSame  = [32]byte{1} // the content that rows hold
	admitOther = [32]byte{2}
)

// admitRows are the rows of table B.
var admitRows = []struct {
	name string
	row  func(kind saga.Kind) saga.BarrierRow
}{
	{"none", func(saga.Kind) saga.BarrierRow { return saga.BarrierRow{} }},
	{"trying, live", func(k saga.Kind) saga.BarrierRow { return admitTrying(k, admitNow.Add(time.Second)) }},
	{"trying, over", func(k saga.Kind) saga.BarrierRow { return admitTrying(k, admitNow) }},
	{"tried", func(k saga.Kind) saga.BarrierRow { return admitRow(k, saga.BarrierTried) }},
	{"refused", func(k saga.Kind) saga.BarrierRow { return admitRow(k, saga.BarrierRefused) }},
	{"confirmed", func(k saga.Kind) saga.BarrierRow { return admitRow(k, saga.BarrierConfirmed) }},
	{"cancelled", func(k saga.Kind) saga.BarrierRow { return admitRow(k, saga.BarrierCancelled) }},
	{"null_cancelled", func(k saga.Kind) saga.BarrierRow { return admitRow(k, saga.BarrierNullCancelled) }},
	{"below the floor", func(saga.Kind) saga.BarrierRow { return saga.BarrierRow{PastRetention: true} }},
}

func admitRecorded(text string) saga.Recorded {
	return saga.Recorded{
		ContentSHA256: admitSame, Revision: 2,
		Reply: saga.StoredReply{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: []byte(text)}},
	}
}

func admitTrying(k saga.Kind, until time.Time) saga.BarrierRow {
	return saga.BarrierRow{
		State: saga.BarrierTrying, Kind: k, LeaseUntil: until, LeaseToken: 7,
		Try: saga.Recorded{ContentSHA256: admitSame, Revision: 2},
	}
}

func admitRow(k saga.Kind, state saga.BarrierState) saga.BarrierRow {
	row := saga.BarrierRow{State: state, Kind: k}
	if state != saga.BarrierNullCancelled {
		row.Try = admitRecorded("try-result")
	}
	switch state {
	case saga.BarrierRefused:
		row.Try.Reply = saga.StoredReply{Outcome: saga.OutcomeRefused, Code: "no_money", Reason: "only 3 left"}
	case saga.BarrierConfirmed:
		row.Confirm = admitRecorded("confirm-result")
	case saga.BarrierCancelled, saga.BarrierNullCancelled:
		row.Cancel = admitRecorded("cancel-result")
	default:
	}
	return row
}

var admitAxes = []struct {
	name   string
	values []string
}{
	{"kind", []string{"saga", "tcc", "pivot", "retriable"}},
	{"content", []string{"same", "other"}},
	{"time", []string{"in time", "late"}},
	{"min_revision", []string{"none", "equal", "above"}},
}

var admitPhases = []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel}

// admitAt builds the row and command of a case. at holds an index into each axis.
func admitAt(rowIndex int, phase saga.Phase, verb saga.Verb, at [4]int) (saga.BarrierRow, saga.Command) {
	kind := saga.Kind(admitAxes[0].values[at[0]])
	row := admitRows[rowIndex].row(kind)
	cmd := saga.Command{
		Verb: verb, Tenant: "t", Step: "s", Phase: phase, Kind: kind, Revision: 2, Attempt: 3,
		ContentSHA256: admitSame, Deadline: admitNow.Add(time.Second),
	}
	if at[1] == 1 {
		cmd.ContentSHA256 = admitOther
	}
	if at[2] == 1 {
		cmd.Deadline = admitNow.Add(-1)
	}
	if minRevision := [...]int{0, 2, 3}[at[3]]; minRevision > 0 && !row.PastRetention {
		admitReserve(&row, kind, phase, minRevision)
	}
	return row, cmd
}

func admitReserve(row *saga.BarrierRow, kind saga.Kind, phase saga.Phase, minRevision int) {
	row.Kind = kind
	if row.State == "" {
		row.State = saga.BarrierAbsent
	}
	switch phase {
	case saga.PhaseTry:
		row.Try.MinRevision = minRevision
	case saga.PhaseConfirm:
		row.Confirm.MinRevision = minRevision
	case saga.PhaseCancel:
		row.Cancel.MinRevision = minRevision
	}
}

// admitOutcome says in one line what Admit decides, and checks what holds for every case.
func admitOutcome(t *testing.T, row saga.BarrierRow, cmd saga.Command) string {
	t.Helper()
	v, next := saga.Admit(row, cmd, admitNow)
	if !v.Store && fmt.Sprint(row) != fmt.Sprint(next) {
		t.Errorf("row %v, %v: nothing is to be stored, yet the row has changed to %v", row, cmd, next)
	}
	if v.Do != saga.DoReply {
		return string(v.Do) + " " + string(cmd.Phase)
	}
	r := v.Reply
	if r.Key() != cmd.Key() || r.Attempt != cmd.Attempt || r.Revision != cmd.Revision || r.ContentSHA256 != cmd.ContentSHA256 {
		t.Errorf("%v: the reply %v has another identity", cmd, r)
	}
	words := []string{string(r.Outcome), r.Code}
	if r.State != "" {
		words = append(words, string(r.State))
	}
	if !r.Result.IsZero() {
		words = append(words, "+ "+string(r.Result.Data))
	}
	if r.RetryAfter > 0 {
		words = append(words, "after "+r.RetryAfter.String())
	}
	if r.Replayed {
		words = append(words, "(stored)")
	}
	if v.Store {
		words = append(words, "→ "+string(next.State))
		if n := next.Recorded(cmd.Phase).MinRevision; r.Outcome == saga.OutcomeReserved {
			words = append(words, fmt.Sprintf("min_revision %d", n))
		}
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// describe writes one line per set of cases with the same outcome: an axis that makes no difference is left out.
func describe(w *strings.Builder, outcome func(at [4]int) string, axis int, at [4]int, conditions []string) {
	if axis == len(admitAxes) {
		when := strings.Join(conditions, ", ")
		fmt.Fprintf(w, "    %-46s %s\n", when, outcome(at))
		return
	}
	blocks := make([]string, len(admitAxes[axis].values))
	for i := range blocks {
		var b strings.Builder
		at[axis] = i
		describe(&b, outcome, axis+1, at, nil)
		blocks[i] = b.String()
	}
	for i, block := range blocks {
		names := []string{}
		for j := range blocks {
			if blocks[j] == block {
				names = append(names, admitAxes[axis].values[j])
			}
		}
		if names[0] != admitAxes[axis].values[i] {
			continue // written with an earlier value
		}
		at[axis] = i
		more := conditions
		if len(names) < len(blocks) {
			more = slices.Concat(conditions, []string{admitAxes[axis].name + " " + strings.Join(names, "|")})
		}
		describe(w, outcome, axis+1, at, more)
	}
}

// TestAdmitGolden holds table B and rules B1, B3, B7, S1.5 and S2.11, for every row state × phase × kind ×
// content × deadline × reservation × verb.
func TestAdmitGolden(t *testing.T) {
	var w strings.Builder
	w.WriteString("# Table B as saga.Admit decides it. The command has revision 2. An axis that is not named makes no\n" +
		"# difference: kind saga|tcc|pivot|retriable, content same|other, time in time|late, min_revision of the phase\n" +
		"# none|equal|above. (stored): repeated from the row. →: the state that is stored.\n")
	for _, verb := range []saga.Verb{saga.VerbExecute, saga.VerbInquire, saga.VerbReserve} {
		for i, r := range admitRows {
			fmt.Fprintf(&w, "\n%s: %s\n", verb, r.name)
			for _, phase := range admitPhases {
				fmt.Fprintf(&w, "  %s\n", phase)
				describe(&w, func(at [4]int) string {
					row, cmd := admitAt(i, phase, verb, at)
					return admitOutcome(t, row, cmd)
				}, 0, [4]int{}, nil)
			}
		}
	}
	golden(t, filepath.Join("testdata", "admit.golden"), w.String())
}

// TestConclude holds the cells "run → …" of table B, S2.7 and I4.
func TestConclude(t *testing.T) {
	kinds := []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}
	result := saga.Payload{Type: "x/y", Data: []byte("\x00\xff")}
	for _, kind := range kinds {
		for _, phase := range admitPhases {
			cmd := saga.Command{Phase: phase, Kind: kind, Revision: 1, ContentSHA256: admitSame}
			row := saga.BarrierRow{}
			if phase != saga.PhaseTry {
				row = admitRow(kind, saga.BarrierTried)
			}
			v, next := saga.Conclude(row, cmd, saga.Ran{Outcome: saga.OutcomeDone, Result: result})
			state := map[saga.Phase]saga.BarrierState{
				saga.PhaseTry: saga.BarrierTried, saga.PhaseConfirm: saga.BarrierConfirmed,
				saga.PhaseCancel: saga.BarrierCancelled,
			}[phase]
			if !v.Store || v.Reply.Outcome != saga.OutcomeDone || next.State != state || v.Reply.Replayed {
				t.Errorf("%s %s done: %v, row %v", kind, phase, v, next)
			}
			if again := next.Reply(cmd); string(again.Result.Data) != string(result.Data) || again.Result.Type != result.Type || !again.Replayed {
				t.Errorf("%s %s: B3: repeated as %v", kind, phase, again)
			}
			v, next = saga.Conclude(row, cmd, saga.Ran{Outcome: saga.OutcomeRefused, Code: "no", Reason: "sold\x00 out\xff"})
			final := phase == saga.PhaseTry && kind != saga.KindRetriable
			switch {
			case final && (!v.Store || next.State != saga.BarrierRefused || v.Reply.Reason != "sold out\uFFFD"):
				t.Errorf("%s %s refused: %v, row %v", kind, phase, v, next)
			case !final && (v.Store || v.Reply.Outcome != saga.OutcomeFault || v.Reply.Code != saga.FaultRefusedPhaseTwo || next.State != row.State):
				t.Errorf("%s %s refused: %v, row %v", kind, phase, v, next)
			}
			for outcome, code := range map[saga.Outcome]string{saga.OutcomeRetry: saga.CodeError, saga.OutcomeFault: saga.FaultHandler, saga.OutcomeUnknown: ""} {
				v, next = saga.Conclude(row, cmd, saga.Ran{Outcome: outcome, RetryAfter: time.Second})
				if v.Store || v.Reply.Outcome != outcome || v.Reply.Code != code || v.Reply.RetryAfter != time.Second || next.State != row.State {
					t.Errorf("%s %s %s: %v, row %v", kind, phase, outcome, v, next)
				}
			}
			v, next = saga.Conclude(row, cmd, saga.Ran{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: make([]byte, saga.ResultBytesMax+1)}})
			if v.Store || v.Reply.Code != saga.FaultResultTooLarge || next.State != row.State {
				t.Errorf("%s %s too large: %v", kind, phase, v)
			}
		}
	}
}

// TestResume holds the row "trying, lease over" of table B, with the claim of the lease (B6).
func TestResume(t *testing.T) {
	for _, kind := range []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable} {
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseCancel} {
			for _, found := range []saga.Downstream{saga.DownstreamDone, saga.DownstreamAbsent, saga.DownstreamUndecided} {
				for _, idempotent := range []bool{false, true} {
					cmd := saga.Command{Phase: phase, Kind: kind, Revision: 2, ContentSHA256: admitSame}
					row := saga.Claim(admitTrying(kind, admitNow), cmd, admitNow.Add(time.Minute))
					if row.LeaseToken != 8 || !row.LeaseUntil.Equal(admitNow.Add(time.Minute)) {
						t.Fatalf("B6: claimed as %v", row)
					}
					v, next := saga.Resume(row, cmd, found, saga.Payload{Data: []byte("r")}, idempotent)
					got := fmt.Sprintf("%s %s %s %s %t %s", v.Do, v.Reply.Outcome, v.Reply.Code, v.Reply.Result.Data, v.Store, next.State)
					want := map[string]string{
						"try done":         "reply done  r true tried",
						"try absent":       "run    false trying",
						"try undecided":    "reply unknown   false trying",
						"cancel done":      "run    false trying", // undo
						"cancel absent":    "void    false trying",
						"cancel undecided": "reply unknown   false trying",
					}[string(phase)+" "+string(found)]
					if phase == saga.PhaseTry && found == saga.DownstreamUndecided && idempotent {
						want = "run    false trying"
					}
					if phase == saga.PhaseCancel && found == saga.DownstreamDone && kind == saga.KindPivot {
						want = "reply fault contradicts r true tried"
					}
					if got != want {
						t.Errorf("%s %s, found %s, idempotent %t: %q, want %q", kind, phase, found, idempotent, got, want)
					}
				}
			}
		}
	}
}

// TestAdmitClaimFresh: the first claim of an external try makes the row trying with the command's content.
func TestAdmitClaimFresh(t *testing.T) {
	cmd := saga.Command{Phase: saga.PhaseTry, Kind: saga.KindPivot, Revision: 4, ContentSHA256: admitSame}
	row := saga.Claim(saga.BarrierRow{}, cmd, admitNow)
	if row.State != saga.BarrierTrying || row.Kind != saga.KindPivot || row.LeaseToken != 1 || row.Try.ContentSHA256 != admitSame || row.Try.Revision != 4 {
		t.Errorf("claimed as %v", row)
	}
}

// TestCleanText: what comes out fits a text column and at most the bytes asked for, cut between two characters.
func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a\x00b": "ab", "\xffé": "\uFFFDé", "12345678é": "12345678", "1234567é": "1234567é", "": "", "\x00": "",
	} {
		if got := saga.CleanText(in, 9); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	long := saga.CleanText(strings.Repeat("日", 1000), saga.ReasonBytesMax)
	if len(long) > saga.ReasonBytesMax || len(long) < saga.ReasonBytesMax-2 || !utf8.ValidString(long) {
		t.Errorf("%d bytes", len(long))
	}
}
