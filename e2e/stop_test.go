package e2e

import (
	"syscall"
	"testing"
	"time"
)

// stopLimit is how long a process may take to stop in order.
const stopLimit = 15 * time.Second

// SIGTERM under load: the processes finish what they hold, exit with 0, and nothing is lost (M1, I-9).
func TestStopUnderLoad(t *testing.T) {
	const (
		total       = 300
		clients     = 150
		inFlightMin = 75
	)
	rnd := random(t)
	w := newWorld(t)
	l := startLoad(t, w.client, newOrders(rnd, plenty(total), 10, 10), clients)
	for n, progress := range spread(rnd, 3, total) {
		l.reach(t, progress, endLimit)
		pause(t.Context(), instant(rnd))
		before := w.atLeast(t, l, inFlightMin)
		w.stop(t, l, n, w.coordinators[0], before)
		w.startCoordinator(t, 0)
	}
	before := w.atLeast(t, l, inFlightMin)
	w.stop(t, l, 3, w.bank[bankA], before)
	w.startBank(t, bankA)
	l.endAfter(total)
	l.wait(t, w, endLimit)
	w.inspect(t, l, 95)
}

func (w *world) stop(t *testing.T, l *load, n int, p *process, before int) {
	t.Helper()
	asked := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.wait(t, stopLimit); code != 0 {
		t.Errorf("%s: exit code %d, want 0\n%s", p.name, code, p.log.tail())
	}
	l.note(t, w, n, p.name+" stopped in "+time.Since(asked).Round(time.Millisecond).String(), before)
}
