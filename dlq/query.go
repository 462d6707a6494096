package dlq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/saga"
)

// ErrNotFound says that there is no dead letter of that id.
var ErrNotFound = errors.New("no such dead letter")

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// limitDefault is how many entries a list has that names no limit.
const limitDefault = 50

// Filter selects dead letters; zero fields select all.
type Filter struct {
	Before        uuid.UUID // only older ones: the id of the last one seen
	Status        saga.DeadLetterStatus
	Participant   string
	Cause         string
	TransactionID saga.ID
	Fingerprint   string
	Tenant        string
	Limit         int // zero: 50
}

// List returns dead letters, the newest first.
func List(ctx context.Context, db Querier, f Filter) ([]DeadLetter, error) {
	rows, err := db.Query(ctx, sqlList, nullID(f.Before), string(f.Status), f.Participant, f.Cause,
		nullID(uuid.UUID(f.TransactionID)), f.Fingerprint, f.Tenant, cmp.Or(f.Limit, limitDefault))
	if err != nil {
		return nil, fmt.Errorf("dlq: list: %w", err)
	}
	letters, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("dlq: list: %w", err)
	}
	return letters, nil
}

// Get returns one dead letter, or ErrNotFound.
func Get(ctx context.Context, db Querier, id uuid.UUID) (DeadLetter, error) {
	rows, err := db.Query(ctx, sqlGet, id)
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dlq: get %s: %w", id, err)
	}
	letter, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return DeadLetter{}, fmt.Errorf("dlq: get %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dlq: get %s: %w", id, err)
	}
	return letter, nil
}

func scan(row pgx.CollectableRow) (DeadLetter, error) {
	var d DeadLetter
	var transactionID *uuid.UUID
	var headers []byte
	err := row.Scan(&d.ID, (*string)(&d.Kind), (*string)(&d.Status), &d.Version, &d.Cause, (*string)(&d.Outcome), &d.Reason,
		&d.Fingerprint, &d.Tenant, &transactionID, &d.Step, (*string)(&d.Phase), &d.Participant, &d.Action, &d.Attempt,
		&d.Revision, &d.ContentSHA256, &d.Message.Subject, &headers, &d.Message.Data, &d.Traceparent, &d.BuriedCount,
		&d.BuriedAt, &d.UpdatedAt)
	if err != nil {
		return d, err
	}
	if transactionID != nil {
		d.TransactionID = saga.ID(*transactionID)
	}
	d.BuriedAt, d.UpdatedAt = d.BuriedAt.UTC(), d.UpdatedAt.UTC()
	return d, json.Unmarshal(headers, &d.Message.Header)
}

func nullID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
