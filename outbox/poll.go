package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

const (
	retryFirst = 100 * time.Millisecond
	retryMax   = 10 * time.Second
)

// newBackoff grows from retryFirst to retryMax, for ever, with jitter.
func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(retryFirst), backoff.WithMaxInterval(retryMax), backoff.WithMaxElapsedTime(0))
}

// pollLoop recovers rows that nobody published: of crashed processes, of dropped hand-offs, and those
// whose publishing failed.
func (r *Relay) pollLoop(ctx context.Context) {
	retry := newBackoff()
	var pass relay.Sweep
	for ctx.Err() == nil {
		room := relay.PollRoom(r.cfg.PollBatch, r.failing.Load(), r.memory.use(), r.memory.limit)
		if room.Count == 0 {
			sleep(ctx, r.cfg.PollInterval, r.room)
			continue
		}
		if !r.connected() { // claims would only delay the rows
			sleep(ctx, relay.Spread(r.cfg.PollInterval, rand.Float64()), nil)
			continue
		}
		took, err := r.poll(ctx, room, pass.After)
		var wait time.Duration
		pass, wait = pass.Next(took, room, time.Now(), r.cfg.PollInterval, rand.Float64())
		switch {
		case err != nil:
			pass, wait = relay.Sweep{}, retry.NextBackOff()
			if ctx.Err() == nil {
				r.log.Warn("the outbox cannot be polled, will try again", "error", err, "wait", wait)
			}
		case r.failing.Load():
			wait = max(wait, retry.NextBackOff())
		default:
			retry.Reset()
		}
		if wait > 0 {
			sleep(ctx, wait, nil)
		}
	}
}

// poll claims rows beyond an id and queues them.
func (r *Relay) poll(ctx context.Context, room relay.Usage, after uuid.UUID) (took relay.Claimed, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue(sqlSettings)
	b.Queue(sqlClaim, r.cfg.Grace.Milliseconds(), room.Count, r.cfg.ClaimTime.Milliseconds(), room.Bytes, after)
	results := r.cfg.Pool.SendBatch(ctx, b)
	defer func() {
		// The claims are committed when the pipeline ends without an error; if it does not, rows that
		// are queued already are published all the same, and at worst by another relay too.
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
		r.queued.set()
	}()
	if _, err := results.Exec(); err != nil {
		return took, fmt.Errorf("outbox: settings: %w", err)
	}
	rows, err := results.Query()
	if err != nil {
		return took, fmt.Errorf("outbox: claim rows: %w", err)
	}
	return r.readClaimed(rows)
}

// readClaimed queues the rows that sqlClaim returns.
func (r *Relay) readClaimed(rows pgx.Rows) (took relay.Claimed, err error) {
	defer rows.Close()
	for rows.Next() {
		it := &item{}
		var messageID, headers string
		var isExpired bool
		var ageMS int64
		if err := rows.Scan(&it.id, &it.msg.Subject, &messageID, &headers, &it.msg.Data, &isExpired, &ageMS); err != nil {
			return took, fmt.Errorf("outbox: read a row: %w", err)
		}
		took.Add(it.id, len(it.msg.Data))
		it.age = time.Duration(ageMS) * time.Millisecond
		r.recovered(it, messageID, headers, isExpired)
	}
	if err := rows.Err(); err != nil {
		return took, fmt.Errorf("outbox: claim rows: %w", err)
	}
	return took, nil
}

// recovered queues a claimed row, or has it deleted if its time is over.
func (r *Relay) recovered(it *item, messageID, headers string, isExpired bool) {
	r.stats.recovered.Add(1)
	if messageID == "" {
		messageID = it.id.String()
	}
	it.msg.Header = parseHeader(headers, messageID)
	it.size = sizeOf(it.msg)
	if isExpired {
		it.expiry = time.Unix(1, 0) // publish drops it
	}
	r.memory.claim(it)
}

func sizeOf(m bus.Message) int {
	size := headerFrameBytes + len(m.Subject) + len(m.Data)
	for name, values := range m.Header {
		for _, v := range values {
			size += len(name) + len(v) + headerLineBytes
		}
	}
	return size
}
