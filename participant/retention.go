package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// retentionMin is the shortest period that saga.barrier_retain takes.
const retentionMin = time.Hour

// How often retention looks, and how much it deletes at a time where there is no partition to drop.
const (
	retentionFirst    = time.Minute
	retentionInterval = 10 * time.Minute
	retentionRowsMax  = 10_000
)

// source names this participant among those that share its database.
func (p *Participant) source() string { return p.cfg.Prefix + "." + p.cfg.Name }

// hear notes the floor that a command carries. One that is behind only keeps more.
func (p *Participant) hear(floor saga.ID) {
	if !floor.IsZero() {
		p.heard.Store(&floor)
	}
}

// tell records, before the first command, that this participant uses the barrier and how long it keeps its rows.
func (p *Participant) tell(ctx context.Context) error {
	retention := pgtype.Int8{Int64: p.cfg.Retention.Milliseconds(), Valid: p.cfg.Retention > 0}
	if _, err := p.cfg.Pool.Exec(ctx, sqlTell, p.source(), retention); err != nil {
		return fmt.Errorf("participant: record who uses the barrier: %w", err)
	}
	return nil
}

// runRetention forgets barrier rows until ctx ends (B7). Commands do not wait for it, except for the moment in which a
// partition is dropped or made.
func (p *Participant) runRetention(ctx context.Context) {
	timer := time.NewTimer(retentionFirst)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := p.retain(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case pg.Code(err) == "55P03":
			p.log.DebugContext(ctx, "the barrier is in use, retention tries again later", "error", err)
		default:
			p.log.WarnContext(ctx, "retention could not do everything, trying again later", "error", err)
		}
		timer.Reset(retentionInterval)
	}
}

// retain makes the partitions of the weeks to come, and forgets once what is past retention.
func (p *Participant) retain(ctx context.Context) error {
	if _, err := p.cfg.Pool.Exec(ctx, sqlMakePartitions); err != nil {
		return fmt.Errorf("participant: make partitions of the barrier: %w", err)
	}
	if p.cfg.Retention < 0 {
		return p.tell(ctx)
	}
	for {
		r, err := p.retainOnce(ctx)
		if err != nil {
			return err
		}
		switch {
		case r.blocked != "" && r.blocked != p.source():
			p.log.WarnContext(ctx, "another participant of this database keeps all barrier rows: it runs without retention, or has got no command yet",
				"holder", r.blocked)
		case r.held.Valid:
			p.log.WarnContext(ctx, "an unsettled operation keeps barrier rows from being forgotten", "transaction", saga.ID(r.held.Bytes).String())
		case r.dropped > 0:
			p.log.InfoContext(ctx, "barrier rows were forgotten", "partitions", r.dropped, "rows", r.deleted)
		}
		if r.deleted < retentionRowsMax {
			return nil
		}
	}
}

// retained is what saga.barrier_retain answers.
type retained struct {
	held             pgtype.UUID
	blocked          string
	dropped, deleted int
}

func (p *Participant) retainOnce(ctx context.Context) (r retained, err error) {
	var floor pgtype.UUID
	if heard := p.heard.Load(); heard != nil {
		floor = uuid(*heard)
	}
	err = p.cfg.Pool.QueryRow(ctx, sqlRetain, p.source(), floor, p.cfg.Retention.Milliseconds(), retentionRowsMax).
		Scan(&r.held, &r.blocked, &r.dropped, &r.deleted)
	if err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("participant: forget barrier rows: %w", err)
	}
	return r, err
}
