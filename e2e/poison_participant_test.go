package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/participant"
)

// worksName is the participant whose processes are killed by one of its commands.
const worksName = "works"

// envWorks, if set, makes the test program a process of that participant.
const envWorks = "SAGACITY_E2E_WORKS"

func init() {
	if os.Getenv(envWorks) != "" {
		os.Exit(runWorks())
	}
}

// workInput is the input of the action work. One that cannot be decoded is a poison that does no harm.
type workInput struct {
	Number int  `json:"number"`
	Kill   bool `json:"kill"` // the process that handles it
}

// worksSchema has no keys, so that a run too many shows.
const worksSchema = `CREATE TABLE works (transaction_id uuid NOT NULL, number int NOT NULL); CREATE TABLE deaths (attempt int NOT NULL)`

// runWorks is what a user's main would be.
func runWorks() int {
	return serveParticipant(worksName, participant.DefaultConcurrency, func(p *participant.Participant, pool *pgxpool.Pool) {
		participant.Handle(p, "work", participant.Saga[workInput, participant.None]{
			Try: func(ctx context.Context, tx pgx.Tx, c participant.Call[workInput]) (none participant.None, err error) {
				if c.Input.Kill {
					return none, die(ctx, pool, c.Attempt)
				}
				_, err = tx.Exec(ctx, `INSERT INTO works (transaction_id, number) VALUES ($1, $2)`, [16]byte(c.Transaction), c.Input.Number)
				return none, err
			},
			Cancel: func(ctx context.Context, tx pgx.Tx, c participant.Settle[workInput, participant.None]) error {
				_, err := tx.Exec(ctx, `DELETE FROM works WHERE transaction_id = $1`, [16]byte(c.Transaction))
				return err
			},
		})
	})
}

// die ends the process as running out of memory does: at once, with all that runs beside.
func die(ctx context.Context, pool *pgxpool.Pool, attempt int) error {
	if _, err := pool.Exec(ctx, `INSERT INTO deaths (attempt) VALUES ($1)`, attempt); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	<-ctx.Done()
	return errors.New("the process lives")
}

// restartDelay is how long a supervisor waits before it starts a process that has died again: RestartSec of
// systemd.
const restartDelay = 100 * time.Millisecond

// superviseWorks runs so many processes of the participant until the test ends, and starts those again that died.
func superviseWorks(t *testing.T, w *world, processes int) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	started, ended := make(chan error, processes), make(chan struct{}, processes)
	for n := range processes {
		go func() {
			defer func() { ended <- struct{}{} }()
			first := started
			for ctx.Err() == nil {
				p, err := launch(spec{
					name: fmt.Sprintf("works %d", n), env: append(w.env(worksName), envWorks+"=1"), ready: "participant runs",
				}, os.Args[0], w.logs)
				if err == nil && first != nil {
					select {
					case <-p.log.ready:
					case <-p.done:
						err = fmt.Errorf("works %d ended before it was ready: %v", n, p.cmd.ProcessState)
					}
				}
				if first != nil {
					first <- err
					first = nil
				}
				if err != nil {
					return
				}
				select {
				case <-p.done:
				case <-ctx.Done():
				}
				p.kill()
				pause(ctx, restartDelay)
			}
		}()
	}
	t.Cleanup(func() {
		stop()
		for range processes {
			<-ended
		}
	})
	for range processes {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
}
