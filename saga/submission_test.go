package saga_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

const submittedDefinition = `{"name":"d","timeout":"1h","steps":[{"name":"a","participant":"p","action":"x"},` +
	`{"name":"b","participant":"p","action":"x"},{"name":"c","participant":"p","action":"x"}]}`

func submissionJSON(more string) []byte {
	return []byte(`{"definition":` + submittedDefinition + more + `}`)
}

// TestSubmissionKeepsBytes: inputs are the user's bytes; a step's own wins over the common one (S1.4, S1.6).
func TestSubmissionKeepsBytes(t *testing.T) {
	s, err := saga.ParseSubmission(submissionJSON(`, "input": {"n" : 1.00}, "inputs": {"b":[ 1e2 ]}, `+
		`"inputs_base64": {"c":{"type":"text/plain","data":"cmF3"}}`), saga.ParseDefinition)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := saga.StoredInputs(s.Definition, s.Body)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []saga.Payload{{Data: []byte(`{"n" : 1.00}`)}, {Data: []byte(`[ 1e2 ]`)}, {Type: "text/plain", Data: []byte("raw")}} {
		for _, got := range []saga.Payload{s.Inputs[i], stored[i]} {
			if got.Type != want.Type || string(got.Data) != string(want.Data) {
				t.Errorf("step %d: %q %s, want %q %s", i, got.Type, got.Data, want.Type, want.Data)
			}
		}
	}
	other, err := saga.ParseSubmission(submissionJSON(` `), saga.ParseDefinition)
	if err != nil || !other.Inputs[0].IsZero() || other.ContentSHA256() == s.ContentSHA256() {
		t.Errorf("%v: %v", err, other.Inputs)
	}
}

// TestInvalidSubmissions: every refusal names the member and has a stable code.
func TestInvalidSubmissions(t *testing.T) {
	large := `"` + strings.Repeat("x", saga.InputBytesMax) + `"`
	for _, test := range []struct{ more, code, field string }{
		{`,"inptu":1`, "invalid_json", "submission"},
		{`,"input":1,"input":2`, "duplicate_member", "submission.input"},
		{`,"input":` + large, saga.CodeTooLarge, "submission.input"},
		{`,"inputs":{"b":` + large + `}`, saga.CodeTooLarge, "submission.inputs.b"},
		{`,"input":"` + strings.Repeat("x", saga.SubmissionBytesMax) + `"`, saga.CodeTooLarge, "submission"},
		{`,"inputs":null`, "invalid_json", "submission.inputs"},
		{`,"inputs":{"\u001b[2J":1}`, "unknown_step", "submission.inputs"},
		{`,"inputs":{"b":1,"b":2}`, "duplicate_member", "submission.inputs.b"},
		{`,"inputs":{"b":1},"inputs_base64":{"b":{"type":"text/plain","data":""}}`, "duplicate_member", "submission.inputs_base64.b"},
		{`,"inputs_base64":{"b":{"type":"text/plain","data":"*"}}`, "invalid_base64", "submission.inputs_base64.b.data"},
		{`,"inputs_base64":{"b":{"type":"application/json","data":""}}`, "invalid_content_type", "submission.inputs_base64.b.type"},
		{`,"inputs_base64":{"b":{"data":""}}`, "invalid_content_type", "submission.inputs_base64.b.type"},
		{`,"id":"7"`, "invalid_id", "submission"},
		{`,"timeout":"1s","deadline":"2026-01-02T03:04:05Z"`, "invalid_deadline", "submission.deadline"},
		{`,"timeout":"1ms"`, "invalid_duration", "submission.timeout"},
		{`,"deadline":"tomorrow"`, "invalid_json", "submission"},
	} {
		_, err := saga.ParseSubmission(submissionJSON(test.more), saga.ParseDefinition)
		wantInvalid(t, err, test.code, test.field)
	}
	_, err := saga.ParseSubmission([]byte(`{"input":1}`), saga.ParseDefinition)
	wantInvalid(t, err, "missing_definition", "submission.definition")
	_, err = saga.ParseSubmission([]byte(`{"definition":{"name":"d"}}`), saga.ParseDefinition)
	wantInvalid(t, err, "invalid_steps", "steps")
}

// TestSubmissionTimes: ids within five minutes of the clock (S1.2), deadlines after the start, within the limits.
func TestSubmissionTimes(t *testing.T) {
	id := func(at time.Time) saga.ID {
		var id saga.ID
		for b := range 6 {
			id[b] = byte(at.UnixMilli() >> (8 * (5 - b)))
		}
		return id
	}
	day := 24 * time.Hour
	in := begin.Add
	for what, test := range map[string]struct {
		s    saga.Submission
		code string
	}{
		"nothing":                   {saga.Submission{}, ""},
		"id of 5 minutes ago":       {saga.Submission{ID: id(in(-5 * time.Minute))}, ""},
		"id older":                  {saga.Submission{ID: id(in(-5*time.Minute - time.Millisecond))}, "invalid_id"},
		"id of 5 minutes ahead":     {saga.Submission{ID: id(in(5 * time.Minute))}, ""},
		"id newer":                  {saga.Submission{ID: id(in(5*time.Minute + time.Millisecond))}, "invalid_id"},
		"latest start":              {saga.Submission{StartAt: in(30 * day)}, ""},
		"start too late":            {saga.Submission{StartAt: in(30*day + 1)}, "invalid_start"},
		"deadline now":              {saga.Submission{Deadline: begin}, "invalid_deadline"},
		"deadline before the start": {saga.Submission{Deadline: in(time.Hour), StartAt: in(time.Hour)}, "invalid_deadline"},
		"latest deadline":           {saga.Submission{Deadline: in(31 * day), StartAt: in(day)}, ""},
		"deadline too late":         {saga.Submission{Deadline: in(31*day + 1), StartAt: in(day)}, "invalid_deadline"},
	} {
		err := test.s.CheckTimes(begin)
		if test.code == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if test.code != "" {
			wantInvalid(t, err, test.code, "submission.")
		}
	}
	s, err := saga.ParseSubmission(submissionJSON(`,"start_at":"2026-01-02T04:04:05Z"`), saga.ParseDefinition)
	if err != nil {
		t.Fatal(err)
	}
	if tx := s.Transaction("shop", saga.ID{}, begin); !tx.Deadline.Equal(in(2*time.Hour)) || !tx.StartAt.Equal(in(time.Hour)) {
		t.Errorf("a delayed start moves the deadline: start %s, deadline %s", tx.StartAt, tx.Deadline)
	}
	s.Timeout = time.Minute
	if tx := s.Transaction("shop", saga.ID{}, in(3*time.Hour)); !tx.Deadline.Equal(in(3*time.Hour + time.Minute)) {
		t.Errorf("deadline %s", tx.Deadline)
	}
}

// TestClientWords: what a client is told (U1, U5): a suspended or resolved transaction is unknown, never failed.
func TestClientWords(t *testing.T) {
	dead := []saga.StepState{{Try: saga.Operation{State: saga.OperationDead}}}
	replaying := []saga.StepState{{Settle: saga.Operation{State: saga.OperationSent, Replaying: true}}}
	for _, test := range []struct {
		status saga.Status
		steps  []saga.StepState
		want   saga.Result
	}{
		{saga.StatusAccepted, nil, saga.ResultAccepted},
		{saga.StatusRunning, nil, saga.ResultRunning},
		{saga.StatusConfirming, nil, saga.ResultRunning},
		{saga.StatusCancelling, nil, saga.ResultRunning},
		{saga.StatusRunning, dead, saga.ResultUnknown},
		{saga.StatusConfirming, replaying, saga.ResultUnknown},
		{saga.StatusCancelling, dead, saga.ResultUnknown},
		{saga.StatusCommitted, nil, saga.ResultSucceeded},
		{saga.StatusCancelled, nil, saga.ResultFailed},
		{saga.StatusResolved, nil, saga.ResultUnknown},
	} {
		if got := (saga.Transaction{Status: test.status, Steps: test.steps}).Result(); got != test.want {
			t.Errorf("%s %v: %s, want %s", test.status, test.steps, got, test.want)
		}
	}
}

// FuzzParseSubmission: any bytes give a submission that can begin, or an InvalidError.
func FuzzParseSubmission(f *testing.F) {
	f.Add(submissionJSON(`,"input":{},"inputs":{"b":[1]},"inputs_base64":{"c":{"type":"text/plain","data":"cmF3"}},"timeout":"1m"`))
	f.Add(submissionJSON(`,"id":"` + someID + `","start_at":"2026-01-02T04:04:05Z","deadline":"2026-01-02T05:04:05Z"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := saga.ParseSubmission(data, saga.ParseDefinition)
		if err != nil {
			var invalid *saga.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%#v", err)
			}
			return
		}
		_ = s.CheckTimes(begin)
		stored, err := saga.StoredInputs(s.Definition, data)
		if err != nil || len(stored) != len(s.Definition.Steps) {
			t.Fatalf("the stored form cannot be read: %v", err)
		}
		if _, _, err := saga.Step(s.Definition, s.Transaction("shop", s.ID, begin), saga.Submitted{}, begin, slowest{}); err != nil {
			t.Fatalf("cannot begin: %v", err)
		}
	})
}
