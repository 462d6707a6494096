package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Config of a Sender. Pool is required.
type Config struct {
	Pool         *pgxpool.Pool
	Log          *slog.Logger // default: slog.Default()
	Links        Links
	AllowPrivate bool // targets may be on this machine or in private networks

	Interval    time.Duration // between two looks at what there is to tell; default 1s
	Window      time.Duration // in which a kind and group has one delivery; default 1m
	AttemptsMax int           // of a delivery; default 12: about two hours
	Backoff     saga.Backoff  // between them; default exponential with full jitter from 5s to 1h
}

// Limits of the tables.
const (
	gatherMax   = 10_000 // notices at a time
	pendingMax  = 10_000 // deliveries of one webhook that wait; what is told beyond is lost for it
	keepEnded   = 7 * 24 * time.Hour
	forgetBatch = 1_000
	forgetEvery = time.Minute
	// lease is how long a claimed delivery is left to the process that claimed it.
	lease = 3 * attemptTimeout
)

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Window = cmp.Or(c.Window, time.Minute)
	c.AttemptsMax = cmp.Or(c.AttemptsMax, 12)
	if c.Backoff == (saga.Backoff{}) {
		c.Backoff = saga.Backoff{Base: saga.Duration(5 * time.Second), Cap: saga.Duration(time.Hour)}
	}
	return c
}

// Sender tells webhooks. Any number of processes may have one on one database.
type Sender struct {
	cfg    Config
	client *http.Client

	mu     sync.Mutex
	flying []uuid.UUID // webhooks that have an attempt in flight
	wake   chan struct{}
}

// NewSender makes a sender. It does nothing until Run.
func NewSender(c Config) *Sender {
	c = c.withDefaults()
	return &Sender{cfg: c, client: newHTTPClient(c.AllowPrivate), wake: make(chan struct{}, 1)}
}

// Run works until ctx ends. An attempt that is in flight then is broken off, and made again by whoever runs next.
func (s *Sender) Run(ctx context.Context) error {
	var attempts sync.WaitGroup
	defer attempts.Wait()
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	var forgot time.Time
	for {
		err := s.gather(ctx)
		if time.Since(forgot) > forgetEvery {
			forgot = time.Now()
			_, forgetErr := s.cfg.Pool.Exec(ctx, sqlForget, keepEnded, forgetBatch)
			err = errors.Join(err, forgetErr)
		}
		if err = errors.Join(err, s.claim(ctx, &attempts)); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("webhooks cannot be told now, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-ticker.C:
		}
	}
}

// gather makes deliveries of notices.
func (s *Sender) gather(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, sqlLockGather).Scan(&mine); err != nil || !mine {
			return err
		}
		rows, err := tx.Query(ctx, sqlGather, gatherMax, s.cfg.Window)
		if err != nil {
			return fmt.Errorf("gather notices: %w", err)
		}
		groups, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g group, err error) {
			err = row.Scan((*string)(&g.kind), &g.key, &g.count, &g.first, &g.last, &g.code, &g.tenant, &g.object, &g.summary)
			return g, err
		})
		if err != nil || len(groups) == 0 {
			return err
		}
		targets, err := s.targets(ctx, tx)
		if err != nil {
			return err
		}
		for i := range groups {
			for j := range targets {
				if err := s.tell(ctx, tx, &targets[j], &groups[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// target is a webhook, as gather sees it.
type target struct {
	id      uuid.UUID
	kinds   []string
	pending int
}

func (s *Sender) targets(ctx context.Context, tx pgx.Tx) ([]target, error) {
	rows, err := tx.Query(ctx, sqlTargets, pendingMax)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t target, err error) {
		err = row.Scan(&t.id, &t.kinds, &t.pending)
		return t, err
	})
}

// tell makes a delivery for a webhook that wants the kind.
func (s *Sender) tell(ctx context.Context, tx pgx.Tx, t *target, g *group) error {
	if len(t.kinds) > 0 && !slices.Contains(t.kinds, string(g.kind)) {
		return nil
	}
	if t.pending >= pendingMax {
		s.cfg.Log.Error("a webhook has too many deliveries waiting and misses one", "webhook", t.id.String(), "kind", string(g.kind))
		return nil
	}
	t.pending++
	_, err := insertDelivery(ctx, tx, t.id, g, s.cfg.Links)
	return err
}

// claimed is a delivery that is this process's for a while.
type claimed struct {
	id, webhook uuid.UUID
	kind        string
	body        []byte
	attempts    int
	url, secret string
}

// claim begins what is due: one attempt of each webhook that has none in flight.
func (s *Sender) claim(ctx context.Context, attempts *sync.WaitGroup) error {
	s.mu.Lock()
	flying := append([]uuid.UUID{}, s.flying...)
	s.mu.Unlock()
	rows, err := s.cfg.Pool.Query(ctx, sqlClaimDelivery, flying, lease)
	if err != nil {
		return fmt.Errorf("claim deliveries: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c claimed, err error) {
		err = row.Scan(&c.id, &c.webhook, &c.kind, &c.body, &c.attempts, &c.url, &c.secret)
		return c, err
	})
	if err != nil {
		return fmt.Errorf("claim deliveries: %w", err)
	}
	for _, c := range due {
		s.mu.Lock()
		s.flying = append(s.flying, c.webhook)
		s.mu.Unlock()
		attempts.Go(func() {
			defer s.landed(c.webhook)
			s.attempt(ctx, c)
		})
	}
	return nil
}

// landed makes room for the webhook's next delivery.
func (s *Sender) landed(webhook uuid.UUID) {
	s.mu.Lock()
	s.flying = slices.DeleteFunc(s.flying, func(id uuid.UUID) bool { return id == webhook })
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// attempt makes one, and stores what came of it.
func (s *Sender) attempt(ctx context.Context, c claimed) {
	answer, err := post(ctx, s.client, c.url, c.secret, c.id, c.body, time.Now())
	if err != nil && ctx.Err() != nil {
		return // nobody knows; it comes again when the lease is over
	}
	end := judge(err, c.attempts, s.cfg.AttemptsMax, s.cfg.Backoff, globalRand{})
	log := s.cfg.Log.With("webhook", c.webhook.String(), "delivery", c.id.String(), "kind", c.kind, "attempt", c.attempts)
	problem := ""
	if err != nil {
		problem = pg.Text(err.Error(), summaryBytesMax)
	}
	switch end.status {
	case StatusFailed:
		log.Error("a webhook could not be told; nobody tries again", "error", problem)
	case StatusPending:
		log.Warn("a webhook could not be told, trying again", "error", problem, "in", end.delay)
	default:
		log.Debug("a webhook was told", "answer", answer)
	}
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	if _, err := s.cfg.Pool.Exec(store, sqlEndAttempt, c.id, c.attempts, string(end.status), answer, problem, end.delay); err != nil {
		log.Warn("what came of telling a webhook could not be stored; it is told again", "error", err)
	}
}

// ending is what becomes of a delivery after an attempt.
type ending struct {
	status Status
	delay  time.Duration // before the next attempt
}

// judge decides what becomes of a delivery after its attempt of that number.
func judge(err error, attempt, attemptsMax int, backoff saga.Backoff, rnd saga.Rand) ending {
	switch {
	case err == nil:
		return ending{status: StatusDelivered}
	case attempt >= attemptsMax:
		return ending{status: StatusFailed}
	}
	return ending{StatusPending, saga.Delay(backoff, attempt, rnd)}
}

// globalRand is the source of math/rand/v2, which any goroutine may use.
type globalRand struct{}

// Int64N returns a number in [0, n).
func (globalRand) Int64N(n int64) int64 { return rand.Int64N(n) }
