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

// cutter cuts a participant's connection in one of the round trips behind the gate.
type cutter struct {
	pool                    *pgxpool.Pool // of the participant, through a proxy
	next, armed, count, cut atomic.Int32  // which is to be cut, and is still; how many there were; how to cut
}

// newCutter makes the participant on a connection that can be cut.
func newCutter(k *kit, construct func(*kit) *grouped) (*cutter, *grouped) {
	k.t.Helper()
	x := &cutter{}
	dsn := pgproxy.Start(k.t, k.pool.Config().ConnString(), func(r pgproxy.Round) pgproxy.Cut {
		if x.armed.Load() == 0 || r.Statements == 0 || x.count.Add(1) != x.armed.Load() {
			return pgproxy.None
		}
		x.armed.Store(0)
		return pgproxy.Cut(x.cut.Load())
	})
	var err error
	if x.pool, err = pgxpool.New(k.t.Context(), dsn); err != nil {
		k.t.Fatal(err)
	}
	direct := k.pool
	k.pool = x.pool
	g := construct(k)
	k.pool = direct
	participant.OnPoint(g.p, func(point string, c saga.Command) {
		if point == participant.PointRan && c.Action == "gate" {
			x.count.Store(0)
			x.armed.Store(x.next.Load())
		}
	})
	return x, g
}

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
	x, g := newCutter(k, func(k *kit) *grouped { return newGrouped(k, waitTimeout) })
	r := k.run(g.p)
	t.Cleanup(x.pool.Close)
	t.Cleanup(r.stop)
	for _, how := range []pgproxy.Cut{pgproxy.Before, pgproxy.After, pgproxy.Middle} {
		for round := range rounds {
			if t.Failed() {
				return
			}
			t.Run(fmt.Sprintf("cut %d in round trip %d", how, round+1), func(t *testing.T) {
				x.cut.Store(int32(how))
				x.next.Store(int32(round + 2)) // the commit of the gate's own group comes first
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
				if x.armed.Load() != 0 {
					t.Errorf("nothing was cut: %d round trips", x.count.Load())
				}
				wantRecorded(t, k)
			})
		}
	}
}
