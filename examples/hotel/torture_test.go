package hotel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sagacity-tx/sagacity/examples/hotel"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant/participanttest"
	"github.com/sagacity-tx/sagacity/saga"
)

// The hotel survives a bad day. docs/testing.md shows this test.
func TestHotelSurvives(t *testing.T) {
	t.Parallel()
	rooms := testdb.New(t, testdb.Template{}) // a database of the test's own
	if _, err := rooms.Exec(t.Context(), `CREATE TABLE rooms (id int PRIMARY KEY, state text NOT NULL);
		INSERT INTO rooms SELECT id, 'free' FROM generate_series(1, 150) AS id`); err != nil {
		t.Fatal(err)
	}
	nc := participanttest.NATS(t)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- hotel.Run(ctx, rooms, nc) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})

	participanttest.Run(t, participanttest.Config{
		NATS: nc, Participant: "hotel", LeaveOut: []string{"failure", "killed-at-work"},
		Actions: []participanttest.Action{{
			Name: "book", Kind: saga.KindTCC,
			Input:    func(n int) []byte { return fmt.Appendf(nil, `{"room":%d}`, n) },
			Refusing: func(int) []byte { return []byte(`{"room":-1}`) },
			Effects: func(ctx context.Context, c participanttest.Case) (e participanttest.Effect, err error) {
				err = rooms.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'reserved'), count(*) FILTER (WHERE state = 'booked')
					FROM rooms WHERE id = $1`, c.N).Scan(&e.Held, &e.Final)
				return e, err
			},
		}},
	})
}
