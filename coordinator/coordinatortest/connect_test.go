package coordinatortest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

var booking = saga.Define("booking").TCC("room", "hotel", "book").MustBuild()

func room(number int) func(*client.Submission) {
	return func(s *client.Submission) { s.Input = stay{Room: number} }
}

func wantRoom(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	var state string
	if err := pool.QueryRow(within(t), `SELECT state FROM rooms WHERE id = 7`).Scan(&state); err != nil || state != want {
		t.Errorf("room 7 is %q (%v), want %s", state, err, want)
	}
}

// Real handlers behind their real barrier commit once and refuse for good.
func TestConnect(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, hotel)
	p, err := participant.NewDirect(participant.Config{Name: "hotel", Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	addActions(p)
	c := coordinatortest.New(t)
	c.Connect(p)
	c.LoseReply("room", saga.PhaseTry, 2)
	c.Duplicate("room", saga.PhaseConfirm, 1)
	wantStatus(t, submit(t, c, booking, room(7)), saga.StatusCommitted)
	wantRoom(t, pool, "booked")
	wantCause(t, submit(t, c, booking, room(7)), saga.WhyRefused, "room", "taken")
	wantRoom(t, pool, "booked")

	// A late try meets the record of its cancel.
	c.Late("room", saga.PhaseTry, saga.DefaultTimeout+1, coordinatortest.Always)
	wantCause(t, submit(t, c, booking, room(7)), saga.WhyDeadline, "", "")
	if c.Settle(); len(c.Calls()) != 0 {
		t.Errorf("calls of real handlers are recorded: %v", c.Calls())
	}
}

// failing is a participant whose database cannot be reached the first times.
type failing struct{ left int }

func (*failing) Name() string { return "hotel" }

func (f *failing) Execute(_ context.Context, cmd saga.Command) (saga.Reply, error) {
	if f.left--; f.left >= 0 {
		return saga.Reply{}, errors.New("no route to the database")
	}
	r := saga.AnswerTo(cmd)
	r.Outcome = saga.OutcomeDone
	return r, nil
}

// No answer is silence: the command is sent again.
func TestConnectedWithoutAnswer(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Connect(&failing{left: 3})
	tx := submit(t, c, booking)
	wantStatus(t, tx, saga.StatusCommitted)
	if n := tx.Steps[0].Operations[0].Attempt; n != 4 {
		t.Errorf("the try had %d attempts, want 4", n)
	}
}

func TestNamesAreTakenOnce(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Connect(&failing{})
	for name, f := range map[string]func(){
		"fake of a connected one": func() { c.Participant("hotel") },
		"connected twice":         func() { c.Connect(&failing{}) },
		"no name":                 func() { c.Participant("a b") },
		"no action":               func() { c.Participant("bank").On("", saga.KindSaga) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}
