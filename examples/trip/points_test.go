package trip_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/examples/trip"
	"github.com/sagacity-tx/sagacity/saga"
)

// Points are spent, given back when a later step refuses, and refused when there are not enough.
func TestPoints(t *testing.T) {
	w := newWorld(t)
	points := w.open(`CREATE TABLE points (owner text PRIMARY KEY, n bigint NOT NULL); INSERT INTO points VALUES ('ann', 10), ('ben', 1)`)
	w.serve("points", points, trip.HandlePoints)
	def := saga.Define("points").Saga("first", "points", "spend").Saga("second", "points", "spend").MustBuild()
	for _, c := range []struct {
		second string
		want   saga.Status
	}{
		{"ann", saga.StatusCommitted},
		{"ben", saga.StatusCancelled},
	} {
		inputs := map[string]any{"first": trip.Points{Owner: "ann", N: 2}, "second": trip.Points{Owner: c.second, N: 2}}
		submitted, err := w.client.Submit(w.ctx, client.Submission{Definition: def, Inputs: inputs}, client.SubmitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := w.client.Wait(w.ctx, submitted.ID)
		if err != nil || tx.Status != c.want {
			t.Fatalf("got %s, %v; want %s", tx.Status, err, c.want)
		}
		w.wantText(points, `SELECT string_agg(owner || ' ' || n, ', ' ORDER BY owner) FROM points`, "ann 6, ben 1")
	}
}
