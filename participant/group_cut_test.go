package participant_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pgproxy"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// M2, X1: the connection of a group is cut in each of its round trips, the commit included, before the server has seen it
// or without its answer. Every effect has its record and every record its effect, nothing is answered that is not
// committed, and each command takes effect once, though its process never noticed more than a lost connection.
func TestGroupIsCut(t *testing.T) {
	t.Parallel()
	const (
		commands = 3
		rounds   = 3*commands + 1 // enter and two statements of each handler, and the commit
	)
	k := newKit(t)
	var armed, count, commit atomic.Int32
	var cut atomic.Int32
	dsn := pgproxy.Start(t, k.pool.Config().ConnString(), func(r pgproxy.Round) pgproxy.Cut {
		if armed.Load() == 0 || r.Statements == 0 || count.Add(1) != armed.Load() {
			return pgproxy.None
		}
		armed.Store(0)
		return pgproxy.Cut(cut.Load())
	})
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	direct := k.pool
	k.pool = pool // of the participant
	g := newGrouped(k, waitTimeout)
	k.pool = direct
	participant.OnPoint(g.p, func(point string, c saga.Command) {
		if point == participant.PointRan && c.Action == "gate" {
			count.Store(0)
			armed.Store(commit.Load() + 1) // the commit of the gate's own group comes first
		}
	})
	r := k.run(g.p)
	t.Cleanup(pool.Close)
	t.Cleanup(r.stop)
	for _, how := range []pgproxy.Cut{pgproxy.Before, pgproxy.After, pgproxy.Middle} {
		for round := range rounds {
			if t.Failed() {
				return
			}
			t.Run(fmt.Sprintf("cut %d in round trip %d", how, round+1), func(t *testing.T) {
				cut.Store(int32(how))
				commit.Store(int32(round + 1))
				var cmds []saga.Command
				for range commands {
					cmds = append(cmds, k.command("charge", saga.KindPivot, saga.PhaseTry, tenCents))
				}
				g.together(cmds...)
				last := round == rounds-1
				for _, c := range cmds {
					r := k.reply(c)
					want(t, r, saga.OutcomeDone, "")
					if last && how == pgproxy.Before { // the server may have seen COMMIT before the connection was cut
						continue
					}
					if r.Replayed != last {
						t.Errorf("replayed %t", r.Replayed)
					}
				}
				for _, c := range cmds {
					k.wantRuns(c, 1)
				}
				if armed.Load() != 0 {
					t.Errorf("nothing was cut: %d round trips", count.Load())
				}
				wantRecorded(t, k)
			})
		}
	}
}
