package e2e

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/participant"
)

const (
	// stockName is the participant that is stopped and started.
	stockName = "stock"
	// stockConcurrency over the time of one command is its capacity, whatever else the machine does.
	stockConcurrency = 8

	// envStock, if set, makes the test program a process of that participant. It is how many milliseconds a command takes.
	envStock = "SAGACITY_E2E_STOCK"
)

// stockSchema has no keys, so that a run too many shows.
const stockSchema = `CREATE TABLE taken (transaction_id uuid NOT NULL)`

func init() {
	if work := os.Getenv(envStock); work != "" {
		os.Exit(runStock(work))
	}
}

func runStock(work string) int {
	ms, err := strconv.Atoi(work)
	if err != nil {
		return 2
	}
	seconds := (time.Duration(ms) * time.Millisecond).Seconds()
	return serveParticipant(stockName, stockConcurrency, func(p *participant.Participant, _ *pgxpool.Pool) {
		participant.Handle(p, "take", participant.Saga[participant.None, participant.None]{
			Try: func(ctx context.Context, tx pgx.Tx, c participant.Call[participant.None]) (none participant.None, err error) {
				if _, err = tx.Exec(ctx, `SELECT pg_sleep($1)`, seconds); err != nil {
					return none, err
				}
				_, err = tx.Exec(ctx, `INSERT INTO taken (transaction_id) VALUES ($1)`, [16]byte(c.Transaction))
				return none, err
			},
			Cancel: func(ctx context.Context, tx pgx.Tx, c participant.Settle[participant.None, participant.None]) error {
				_, err := tx.Exec(ctx, `DELETE FROM taken WHERE transaction_id = $1`, [16]byte(c.Transaction))
				return err
			},
		})
	})
}

// startStock starts the participant and waits until it takes commands.
func startStock(t *testing.T, w *world, workMS int) *process {
	t.Helper()
	p, err := launch(spec{
		name: stockName, env: append(w.env(stockName), envStock+"="+strconv.Itoa(workMS)), ready: "participant runs",
	}, os.Args[0], w.logs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.awaitLine(t)
	return p
}
