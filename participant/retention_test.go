package participant

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// A participant forgets by the floor that it was told last, and what another process of it was told.
func TestRetentionOfAParticipant(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	nc := testdb.NATS(t)
	p, err := New(Config{Name: "accounts", Pool: pool, NATS: nc, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	old := retainedID(60 * testDay)
	settledTry(t, p.barrier, old)
	if err := p.tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	there := func(want bool) {
		t.Helper()
		if err := p.retain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if row := barrierRowOf(t, pool, old); (row.State != "") != want {
			t.Errorf("row %+v, want it there: %t", row, want)
		}
	}
	there(true) // no command has told a floor
	p.hear(retainedID(45 * testDay))
	there(true)
	p.hear(saga.ID{})
	p.hear(retainedID(time.Hour))
	there(false)
}

// A participant that keeps its rows for ever says so to the others.
func TestNoRetentionOfAParticipant(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	p, err := New(Config{Name: "accounts", Pool: pool, NATS: testdb.NATS(t), Retention: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p.hear(retainedID(0))
	if err := p.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := retainedID(60 * testDay)
	settledTry(t, p.barrier, old)
	a, err := tryRetain(t.Context(), pool, "saga.other", retainedID(0))
	if err != nil || a.blocked.String != "saga.accounts" || a.deleted != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := New(Config{Name: "accounts", Pool: pool, NATS: testdb.NATS(t), Retention: time.Minute}); err == nil {
		t.Error("a minute was accepted")
	}
}
