package participanttest_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/participant/participanttest"
	"github.com/sagacity-tx/sagacity/saga"
)

// A participant in another language is tested by a small program. It runs beside it, and looks into its database.
func ExampleTorture() {
	ctx := context.Background()
	nc, err := nats.Connect(os.Getenv("NATS_URL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	report, err := participanttest.Torture(ctx, participanttest.Config{
		NATS: nc, Participant: "hotel",
		Actions: []participanttest.Action{{
			Name: "book", Kind: saga.KindTCC,
			Input: func(n int) []byte { return fmt.Appendf(nil, `{"room":%d}`, n) },
			Effects: func(ctx context.Context, c participanttest.Case) (e participanttest.Effect, err error) {
				err = db.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'reserved'), count(*) FILTER (WHERE state = 'booked')
					FROM rooms WHERE id = $1`, c.N).Scan(&e.Held, &e.Final)
				return e, err
			},
		}},
	})
	fmt.Print(report)
	if err != nil || !report.OK() {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
