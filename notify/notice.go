package notify

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/pg"
)

// Kind is what a notice tells of.
type Kind string

// The kinds. The runbook has a section for each.
const (
	KindSuspended   Kind = "suspended"    // a transaction waits for a person
	KindDeadLetter  Kind = "dead_letter"  // an operation or message is set aside
	KindBreakerOpen Kind = "breaker_open" // a participant is silent
	KindPaused      Kind = "paused"       // something is paused, by a person or by itself
	KindBreakGlass  Kind = "break_glass"  // somebody approved alone (E3)
	KindJobEnded    Kind = "job_ended"    // a bulk job is done, or was aborted

	kindTest Kind = "test"
)

// Kinds are all kinds that a webhook may ask for.
var Kinds = []Kind{KindSuspended, KindDeadLetter, KindBreakerOpen, KindPaused, KindBreakGlass, KindJobEnded}

// Notice is something that people have to know of.
type Notice struct {
	Kind    Kind
	Group   string // of one kind and group there is one delivery a minute; equal causes have equal groups
	Code    string // the runbook's anchor: the cause of a dead letter; "": the kind
	Count   int    // how many it stands for; zero: 1
	Tenant  string // "" if it is of none
	Object  string // path in the API of what it is about, such as /v1/dead-letters/…
	Summary string // one sentence for people
}

const (
	groupBytesMax   = 256
	summaryBytesMax = 1024
)

func (n *Notice) args() ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("notify: make an id: %w", err)
	}
	code := n.Code
	if code == "" {
		code = string(n.Kind)
	}
	return []any{
		id, string(n.Kind), pg.Text(n.Group, groupBytesMax), pg.Text(code, groupBytesMax), max(n.Count, 1), n.Tenant, n.Object,
		pg.Text(n.Summary, summaryBytesMax),
	}, nil
}

// Queue adds notices to the batch that stores what they tell of. Those of one kind and group become one.
func Queue(batch *pgx.Batch, list ...Notice) error {
	for _, n := range merge(list) {
		args, err := n.args()
		if err != nil {
			return err
		}
		batch.Queue(sqlInsertNotice, args...)
	}
	return nil
}

// Execer is a pool, a connection or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Insert stores a notice in the transaction that stores what it tells of.
func Insert(ctx context.Context, tx Execer, n Notice) error {
	args, err := n.args()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sqlInsertNotice, args...); err != nil {
		return fmt.Errorf("notify: store a notice of %s: %w", n.Kind, err)
	}
	return nil
}

// merge makes one notice of those of one kind and group, in the order of the first ones.
func merge(list []Notice) []Notice {
	type key struct {
		kind  Kind
		group string
	}
	at := map[key]int{}
	var merged []Notice
	for _, n := range list {
		n.Count = max(n.Count, 1)
		k := key{n.Kind, n.Group}
		if i, ok := at[k]; ok {
			merged[i].Count += n.Count
			continue
		}
		at[k] = len(merged)
		merged = append(merged, n)
	}
	return merged
}
