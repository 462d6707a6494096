package api

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/dlq"
)

// Bounds of what denied calls may write into the audit. In a minute each of 20 actors has 30 rows of its own, and one that
// counts the rest; all others share the same. So a server writes 651 rows a minute at most, and 31 for all callers without
// a valid credential, who are one actor: about 6 MB a day, whatever their rate.
const (
	deniedRowsMax = 30
	denialActors  = 20
	denialPeriod  = time.Minute
	denialTimeout = 2 * time.Second
	actorOthers   = "others"
)

// denials writes denied calls into the audit, so that nobody can fill the disk with them, and so that a flood of one caller
// does not hide what another does.
type denials struct {
	write  func(context.Context, dlq.AuditEntry) error
	log    *slog.Logger
	each   int // rows of an actor in a period
	period time.Duration

	mu    sync.Mutex
	of    map[string]*denialCount
	timer *time.Timer // of the period's end; nil: there is none
}

type denialCount struct {
	rows   int    // written
	more   int    // counted only
	tenant string // of the actor
}

func newDenials(write func(context.Context, dlq.AuditEntry) error, each int, log *slog.Logger) *denials {
	return &denials{write: write, each: each, log: log, period: denialPeriod, of: map[string]*denialCount{}}
}

// record writes or counts a denied call.
func (d *denials) record(ctx context.Context, e dlq.AuditEntry) {
	if d.write == nil || !d.admit(e) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialTimeout)
	defer cancel()
	if err := d.write(ctx, e); err != nil {
		d.log.Warn("a denied call is not in the audit", "actor", e.Actor, "object", e.Object, "error", err)
	}
}

// admit reports whether the call gets a row of its own.
func (d *denials) admit(e dlq.AuditEntry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer == nil {
		d.timer = time.AfterFunc(d.period, d.flush)
	}
	actor, tenant := e.Actor, e.Tenant
	if d.of[actor] == nil && len(d.of) >= denialActors {
		actor, tenant = actorOthers, ""
	}
	n := d.of[actor]
	if n == nil {
		n = &denialCount{tenant: tenant}
		d.of[actor] = n
	}
	if n.rows < d.each {
		n.rows++
		return true
	}
	n.more++
	return false
}

// flush ends the period: what was only counted is written as one row of each actor.
func (d *denials) flush() {
	d.mu.Lock()
	counted := d.of
	d.of = map[string]*denialCount{}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), denialTimeout)
	defer cancel()
	for actor, n := range counted {
		if n.more == 0 {
			continue
		}
		err := d.write(ctx, dlq.AuditEntry{
			Actor: actor, Action: actionDenied, Object: "more", Tenant: n.tenant, Detail: fmt.Sprintf("%d more calls within a minute", n.more),
		})
		if err != nil {
			d.log.Warn("denied calls are not in the audit", "actor", actor, "calls", n.more, "error", err)
		}
	}
}
