package asyncapi_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/asyncapi"
	"github.com/sagacity-tx/sagacity/saga"
)

func document(t *testing.T) *asyncapi.Document {
	t.Helper()
	d, err := asyncapi.Read("../../docs/asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// golden reads a message of the frozen contract.
func golden(t *testing.T, path string) (subject string, header map[string][]string, body []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "\n\n")
	header = map[string][]string{}
	for line := range strings.SplitSeq(head, "\n") {
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case !ok || strings.HasPrefix(line, "#"):
		case name == "subject":
			subject = value
		default:
			header[name] = append(header[name], value)
		}
	}
	return subject, header, []byte(rest)
}

// Every message that the golden files freeze is one of the document, with all of its headers and members; without a header
// that it must have, or with a wrong one, it is none.
func TestGoldenMessages(t *testing.T) {
	d := document(t)
	checked := map[string]int{}
	for _, kind := range []struct{ files, channel, message, required, wrong string }{
		{"command_*", "commands", "command", "Saga-Reply-To", "Saga-Phase"},
		{"reply_*", "replies", "reply", "Saga-Outcome", "Saga-Verb"},
		{"event_*", "events", "event", "ce-id", "ce-type"},
	} {
		paths, err := filepath.Glob("../../saga/wire/testdata/" + kind.files + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			subject, header, body := golden(t, path)
			check := func(header map[string][]string) error {
				return d.Check(kind.channel, kind.message, "saga", subject, header, body, true)
			}
			if err := check(header); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			without, wrong, more := maps.Clone(header), maps.Clone(header), maps.Clone(header)
			delete(without, kind.required)
			wrong[kind.wrong] = []string{"nonsense"}
			more["Saga-New"] = []string{"x"}
			if check(without) == nil || check(wrong) == nil || check(more) == nil {
				t.Errorf("%s: anything is taken", path)
			}
			if err := d.Check(kind.channel, kind.message, "saga", subject, more, body, false); err != nil {
				t.Errorf("%s of somebody newer: %v", path, err)
			}
			checked[kind.message]++
		}
	}
	if checked["command"] < 5 || checked["reply"] < 9 || checked["event"] < 2 {
		t.Errorf("hardly anything was checked: %v", checked)
	}
	header := map[string][]string{"Saga-Request-Id": {"order-1"}}
	for body, ok := range map[string]bool{`{"definition":"transfer@2","inputs":{"debit":{"cents":1}}}`: true, `{"input":1}`: false, `{"definition":"a","more":1}`: false} {
		if err := d.Check("submissions", "submission", "saga", "saga.submit.acme", header, []byte(body), true); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// The words of the document are those of the code.
func TestWords(t *testing.T) {
	d := document(t)
	enum := func(schema, property string) []string {
		s := d.Components.Schemas[schema]
		if property != "" {
			s = s.Properties[property]
		}
		return s.Enum
	}
	for what, c := range map[string]struct{ got, want []string }{
		"verbs":    {enum("verb", ""), texts(saga.VerbExecute, saga.VerbInquire, saga.VerbReserve)},
		"phases":   {enum("phase", ""), texts(saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel)},
		"kinds":    {enum("commandHeaders", "Saga-Step-Kind"), texts(saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable)},
		"outcomes": {enum("replyHeaders", "Saga-Outcome"), texts(saga.OutcomeDone, saga.OutcomeRefused, saga.OutcomeRetry, saga.OutcomeInProgress, saga.OutcomeUnknown, saga.OutcomeHanging, saga.OutcomeFault, saga.OutcomeState, saga.OutcomeReserved)},
		"states":   {enum("replyHeaders", "Saga-State"), texts(saga.BarrierAbsent, saga.BarrierTrying, saga.BarrierTried, saga.BarrierRefused, saga.BarrierConfirmed, saga.BarrierCancelled, saga.BarrierPastRetention)},
		"statuses": {enum("eventBody", "status"), texts(saga.StatusAccepted, saga.StatusRunning, saga.StatusConfirming, saga.StatusCancelling, saga.StatusCommitted, saga.StatusCancelled, saga.StatusResolved)},
		"results":  {enum("eventBody", "result"), texts(saga.ResultAccepted, saga.ResultRunning, saga.ResultSucceeded, saga.ResultFailed, saga.ResultUnknown)},
		"causes":   {d.Components.Schemas["eventBody"].Properties["cause"].Properties["why"].Enum, texts(saga.WhyRefused, saga.WhyDeadline, saga.WhyClient, saga.WhyExhausted)},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s are %q, want %q", what, c.got, c.want)
		}
	}
	var types []string
	for _, l := range texts(saga.LifecycleAccepted, saga.LifecycleDecided, saga.LifecycleSuspended, saga.LifecycleResumed, saga.LifecycleCommitted, saga.LifecycleCancelled, saga.LifecycleResolved) {
		types = append(types, "sagacity.transaction."+l)
	}
	if got := enum("eventHeaders", "ce-type"); !slices.Equal(got, types) {
		t.Errorf("types of events are %q, want %q", got, types)
	}
}

func texts[T ~string](words ...T) (list []string) {
	for _, w := range words {
		list = append(list, string(w))
	}
	return list
}
