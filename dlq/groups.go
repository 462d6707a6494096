package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Group is the dead letters of one fingerprint: one cause, however many operations it hit (D1).
type Group struct {
	Fingerprint string
	Kind        Kind
	Participant string
	Action      string
	Phase       saga.Phase
	Cause       string
	Reason      string // of one of them
	FirstSeen   time.Time
	LastSeen    time.Time // when one of them changed last
	Counts      map[saga.DeadLetterStatus]int
	Notes       int
}

// GroupFilter selects groups; zero fields select all.
type GroupFilter struct {
	Before      GroupPlace            // only those first seen before: the place of the last one seen
	Status      saga.DeadLetterStatus // only those that have dead letters of that status
	Participant string
	Fingerprint string
	Tenant      string // only dead letters of the tenant count
	Limit       int    // zero: 50
}

// GroupPlace is where a group is in the list. The zero value is before all.
type GroupPlace struct {
	FirstSeen   time.Time
	Fingerprint string
}

// Place returns where the group is in the list.
func (g *Group) Place() GroupPlace {
	return GroupPlace{FirstSeen: g.FirstSeen, Fingerprint: g.Fingerprint}
}

// The counts come from an index alone; the rest of a group from one of its rows. Groups are listed by when they were first
// seen, because that does not change while somebody reads page after page.
const sqlListGroups = `
WITH counted AS (
    SELECT fingerprint, min(buried_at) AS first_seen, max(updated_at) AS last_seen, min(id::text)::uuid AS example,
           count(*) FILTER (WHERE status = 'open')::integer AS open,
           count(*) FILTER (WHERE status = 'replaying')::integer AS replaying,
           count(*) FILTER (WHERE status = 'closed')::integer AS closed,
           count(*) FILTER (WHERE status = 'obsolete')::integer AS obsolete,
           count(*) FILTER (WHERE status = 'discarded')::integer AS discarded
      FROM dead_letters
     WHERE ($1::text = '' OR fingerprint = $1) AND ($2::text = '' OR tenant = $2)
     GROUP BY fingerprint
    HAVING $3::text = '' OR count(*) FILTER (WHERE status = $3) > 0
)
SELECT g.fingerprint, d.kind, d.participant, d.action, COALESCE(d.phase, ''), d.cause, d.reason, g.first_seen, g.last_seen,
       g.open, g.replaying, g.closed, g.obsolete, g.discarded,
       (SELECT count(*)::integer FROM group_notes n WHERE n.fingerprint = g.fingerprint AND ($2::text = '' OR n.tenant = $2))
  FROM counted g
  JOIN dead_letters d ON d.id = g.example
 WHERE ($4::text = '' OR d.participant = $4)
   AND ($5::timestamptz IS NULL OR (g.first_seen, g.fingerprint) < ($5, $6::text))
 ORDER BY g.first_seen DESC, g.fingerprint DESC LIMIT $7`

// ListGroups returns groups, the one seen first last.
func ListGroups(ctx context.Context, db Querier, f GroupFilter) ([]Group, error) {
	var before *time.Time
	if !f.Before.FirstSeen.IsZero() {
		before = &f.Before.FirstSeen
	}
	rows, err := db.Query(ctx, sqlListGroups, f.Fingerprint, f.Tenant, string(f.Status), f.Participant, before, f.Before.Fingerprint,
		cmp.Or(f.Limit, limitDefault))
	if err != nil {
		return nil, fmt.Errorf("dlq: list groups: %w", err)
	}
	groups, err := pgx.CollectRows(rows, scanGroup)
	if err != nil {
		return nil, fmt.Errorf("dlq: list groups: %w", err)
	}
	return groups, nil
}

func scanGroup(row pgx.CollectableRow) (Group, error) {
	var g Group
	var open, replaying, closed, obsolete, discarded int
	err := row.Scan(&g.Fingerprint, (*string)(&g.Kind), &g.Participant, &g.Action, (*string)(&g.Phase), &g.Cause, &g.Reason, &g.FirstSeen, &g.LastSeen,
		&open, &replaying, &closed, &obsolete, &discarded, &g.Notes)
	g.FirstSeen, g.LastSeen = g.FirstSeen.UTC(), g.LastSeen.UTC()
	g.Counts = map[saga.DeadLetterStatus]int{
		saga.DeadLetterOpen: open, saga.DeadLetterReplaying: replaying, saga.DeadLetterClosed: closed,
		saga.DeadLetterObsolete: obsolete, saga.DeadLetterDiscarded: discarded,
	}
	return g, err
}

// GetGroup returns the group of a fingerprint, or ErrNotFound.
func GetGroup(ctx context.Context, db Querier, fingerprint, tenant string) (Group, error) {
	groups, err := ListGroups(ctx, db, GroupFilter{Fingerprint: fingerprint, Tenant: tenant, Limit: 1})
	switch {
	case err != nil:
		return Group{}, err
	case len(groups) == 0:
		return Group{}, fmt.Errorf("dlq: group %s: %w", fingerprint, ErrNotFound)
	}
	return groups[0], nil
}

// Note is what an operator has written about a group.
type Note struct {
	ID    uuid.UUID
	At    time.Time
	Actor string
	Text  string
}

// NotesMax bounds the notes that the operators of one tenant, or those of all tenants, write on a group.
const NotesMax = 100

// ErrTooManyNotes says that a group has as many notes as it may have.
var ErrTooManyNotes = errors.New("the group has as many notes as it may have")

const (
	sqlInsertNote = `
INSERT INTO group_notes (id, tenant, fingerprint, actor, note)
SELECT $1, $2, $3, $4, $5 WHERE (SELECT count(*) FROM group_notes WHERE fingerprint = $3 AND tenant = $2) < $6
RETURNING id, at, actor, note`

	sqlListNotes = `
SELECT id, at, actor, note
  FROM (SELECT * FROM group_notes WHERE fingerprint = $1 AND ($2::text = '' OR tenant = $2) ORDER BY id DESC LIMIT $3) AS newest
 ORDER BY id`
)

// Notes returns the newest notes of a group, at most NotesMax, the oldest of them first.
func Notes(ctx context.Context, db Querier, fingerprint, tenant string) ([]Note, error) {
	rows, err := db.Query(ctx, sqlListNotes, fingerprint, tenant, NotesMax)
	if err != nil {
		return nil, fmt.Errorf("dlq: notes of group %s: %w", fingerprint, err)
	}
	notes, err := pgx.CollectRows(rows, scanNote)
	if err != nil {
		return nil, fmt.Errorf("dlq: notes of group %s: %w", fingerprint, err)
	}
	return notes, nil
}

// NoteParams says who writes what about which group.
type NoteParams struct {
	Tenant      string
	Fingerprint string
	Actor       string
	Text        string
}

// AddNoteTx adds a note in the caller's transaction. The error is ErrTooManyNotes at the limit, which concurrent writers
// may pass by a few.
func AddNoteTx(ctx context.Context, tx pgx.Tx, p NoteParams) (Note, error) {
	rows, err := tx.Query(ctx, sqlInsertNote, uuid.Must(uuid.NewV7()), p.Tenant, p.Fingerprint, pg.Text(p.Actor, 256), pg.Text(p.Text, saga.ReasonBytesMax), NotesMax)
	if err != nil {
		return Note{}, fmt.Errorf("dlq: note on group %s: %w", p.Fingerprint, err)
	}
	note, err := pgx.CollectExactlyOneRow(rows, scanNote)
	if errors.Is(err, pgx.ErrNoRows) {
		return Note{}, fmt.Errorf("dlq: note on group %s: %w", p.Fingerprint, ErrTooManyNotes)
	}
	if err != nil {
		return Note{}, fmt.Errorf("dlq: note on group %s: %w", p.Fingerprint, err)
	}
	return note, nil
}

func scanNote(row pgx.CollectableRow) (n Note, err error) {
	err = row.Scan(&n.ID, &n.At, &n.Actor, &n.Text)
	n.At = n.At.UTC()
	return n, err
}
