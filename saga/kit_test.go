package saga_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// What the tests of the transition function share.

// begin is the instant at which every test's time starts.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// slowest draws the longest delay, so that golden files show round numbers.
type slowest struct{}

func (slowest) Int64N(n int64) int64 { return n - 1 }

// init registers -update unless another test of this package has: it rewrites golden files.
func init() {
	if flag.Lookup("update") == nil {
		flag.Bool("update", false, "rewrite the golden files")
	}
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// golden compares got with the file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if updating() {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from what the code does (-update rewrites it):\n%s", path, firstDifference(string(want), got))
	}
}

// newTransaction returns what a submission hands to Step: identity, inputs and a deadline.
func newTransaction(def *saga.Definition) saga.Transaction {
	tx := saga.Transaction{
		Tenant:   "shop",
		ID:       saga.ID{0x01, 0x9b, 6: 0x70, 8: 0x80},
		Version:  1,
		Deadline: begin.Add(time.Duration(def.Timeout)),
		Inputs:   make([]saga.Payload, len(def.Steps)),
	}
	for i := range tx.Inputs {
		tx.Inputs[i] = saga.Payload{Data: []byte(`{}`)}
	}
	return tx
}

// operationOf returns the step's operation in the phase; the zero Operation if it was never sent.
func operationOf(def *saga.Definition, tx saga.Transaction, step string, phase saga.Phase) saga.Operation {
	s := tx.Steps[def.StepIndex(step)]
	if phase == saga.PhaseTry {
		return s.Try
	}
	if s.Settle.Phase == phase {
		return s.Settle
	}
	return saga.Operation{}
}

// answer returns a reply to the operation's last attempt.
func answer(def *saga.Definition, tx saga.Transaction, step string, phase saga.Phase, outcome saga.Outcome) saga.Reply {
	op := operationOf(def, tx, step, phase)
	return saga.Reply{
		Verb: saga.VerbExecute, Tenant: tx.Tenant, Transaction: tx.ID, Step: step, Phase: phase,
		Participant: def.Steps[def.StepIndex(step)].Participant, Attempt: op.Attempt, Revision: max(op.Revision, 1),
		ContentSHA256: op.ContentSHA256, Outcome: outcome,
	}
}
