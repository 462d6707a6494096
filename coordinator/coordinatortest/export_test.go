package coordinatortest

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Serve lets a fake of c answer a command that comes from elsewhere, with the faults that are planned for it. end is
// called with the reply, or with nil if there is none.
func Serve(c *Coordinator, cmd saga.Command, end func(*saga.Reply)) {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readClock()
	p, times := e.participants[cmd.Participant], 1
	if f := e.fault(cmd, disturbsCommand); f != nil {
		switch f.kind {
		case faultLose:
			end(nil)
			return
		case faultDuplicate:
			times = 2
		default:
			e.agenda.add(e.now.Add(f.late), func() { p.start(e, cmd, end) })
			times = 0
		}
	}
	for i := range times {
		p.start(e, cmd, func(r *saga.Reply) {
			if r != nil {
				r.Participant = cmd.Participant
			}
			switch {
			case i > 0:
			case e.fault(cmd, disturbsReply) != nil:
				end(nil)
			default:
				end(r)
			}
		})
	}
	e.pump(time.Time{})
}
