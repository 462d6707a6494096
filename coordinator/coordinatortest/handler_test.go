package coordinatortest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

type stay struct{ Room int }

// addActions is what a service does, and what is to be tested: its handlers.
func addActions(p *participant.Participant) {
	set := func(ctx context.Context, tx pgx.Tx, room int, from, to string) error {
		tag, err := tx.Exec(ctx, `UPDATE rooms SET state = $3 WHERE id = $1 AND state = $2`, room, from, to)
		if err == nil && tag.RowsAffected() == 0 {
			err = participant.Refuse("taken", nil)
		}
		return err
	}
	participant.Handle(p, "book", participant.TCC[stay, participant.None]{
		Try: func(ctx context.Context, tx pgx.Tx, c participant.Call[stay]) (none participant.None, err error) {
			return none, set(ctx, tx, c.Input.Room, "free", "reserved")
		},
		Confirm: func(ctx context.Context, tx pgx.Tx, c participant.Settle[stay, participant.None]) error {
			return set(ctx, tx, c.Input.Room, "reserved", "booked")
		},
		Cancel: func(ctx context.Context, tx pgx.Tx, c participant.Settle[stay, participant.None]) error {
			return set(ctx, tx, c.Input.Room, "reserved", "free")
		},
	})
}

var hotel = testdb.Template{Name: "hotel", Migrate: func(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := participant.Migrate(ctx, pool); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, `CREATE TABLE rooms (id int PRIMARY KEY, state text NOT NULL); INSERT INTO rooms VALUES (7, 'free')`)
	return err
}}

// A test of handlers: the room is free again when the payment is refused, whatever happens to the messages.
func TestRoomIsFreedAgain(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, hotel)
	p, err := participant.NewDirect(participant.Config{Name: "hotel", Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	addActions(p)
	c := coordinatortest.New(t)
	c.Connect(p)
	c.Participant("bank").On("charge", saga.KindPivot, coordinatortest.Refuse("insufficient_funds", ""))
	c.Duplicate("room", saga.PhaseTry, 1)
	c.LoseReply("room", saga.PhaseCancel, 1)

	tx := submit(t, c, saga.Define("trip").TCC("room", "hotel", "book").Pivot("pay", "bank", "charge").MustBuild(), room(7))
	wantCause(t, tx, saga.WhyRefused, "pay", "insufficient_funds")
	wantRoom(t, pool, "free")
}
