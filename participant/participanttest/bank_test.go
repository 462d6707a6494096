package participanttest_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/participant/participanttest"
)

func input(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// The bank, with every action that it has, effects outside of the local transaction included, on a real database:
// nothing is wrong, nothing is left out, and no money is lost (I-12).
func TestBank(t *testing.T) {
	t.Parallel()
	pool, nc, prefix := bankDatabase(t), testdb.NATS(t), testdb.Prefix(t)
	p := start(t, func(own *nats.Conn) *participant.Participant { return newBank(t, pool, own, prefix) })
	var actions []participanttest.Action
	for _, name := range newBank(t, pool, nc, prefix).Actions() {
		a := bankAction(pool, name)
		if a.Kind == "" {
			t.Fatalf("the bank's action %s is not tested: which kind is it?", name)
		}
		actions = append(actions, a)
	}
	report, err := participanttest.Torture(t.Context(), participanttest.Config{
		NATS: nc, Prefix: prefix, Participant: "bank", Actions: actions, Restart: p.restart, Seed: 1,
	})
	wantClean(t, report, err, 20*len(actions))
	held, err := bank.HeldTotal(t.Context(), pool)
	repeated, err2 := bank.Repeated(t.Context(), pool)
	if err := errors.Join(err, err2); err != nil || held != 0 || len(repeated) > 0 {
		t.Errorf("held %d, repeated %q, %v", held, repeated, err)
	}
}

// wantClean wants a report of at least so many checks, all of them ok.
func wantClean(t *testing.T, report participanttest.Report, err error, checksMin int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() || report.Count(participanttest.LeftOut) > 0 || len(report.Checks) < checksMin {
		t.Errorf("%d checks, want %d or more:\n%s", len(report.Checks), checksMin, report)
	}
}
