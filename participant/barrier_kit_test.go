package participant

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/sabotage"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// barrierEffects has no unique key: it counts what handlers did.
const barrierEffects = `
CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY, transaction_id uuid NOT NULL, phase text NOT NULL);
CREATE TABLE once (id integer PRIMARY KEY);
INSERT INTO once VALUES (1);`

var barrierTemplate = testdb.Template{Name: "barrier", Migrate: func(ctx context.Context, dsn string) error {
	return barrierInstall(ctx, dsn, "")
}}

// barrierSabotaged is the schema without one safeguard.
func barrierSabotaged(safeguard string) testdb.Template {
	names := map[string]string{sabotage.Tombstone: "no_tombstone", sabotage.StoredReply: "no_stored_reply", sabotage.ContentCheck: "no_content_check"}
	return testdb.Template{Name: "barrier_" + names[safeguard], Migrate: func(ctx context.Context, dsn string) error {
		return barrierInstall(ctx, dsn, safeguard)
	}}
}

func barrierInstall(ctx context.Context, dsn, safeguard string) (err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if safeguard == "" {
		err = Migrate(ctx, conn)
	} else {
		var sql string
		if sql, err = sabotage.Barrier(SchemaSQL(), safeguard); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, barrierEffects, pgx.QueryExecModeSimpleProtocol)
	return err
}

var barrierIDs atomic.Int64

// barrierID returns a new UUIDv7.
func barrierID() saga.ID {
	n := barrierIDs.Add(1)
	return saga.ID{0x01, 0x9b, 0x42, byte(n >> 24), byte(n >> 16), byte(n >> 8), 0x70, byte(n), 0x80}
}

// barrierCommand returns a command to execute, of revision 2, with the content that rows hold.
func barrierCommand(id saga.ID, phase saga.Phase) saga.Command {
	return saga.Command{
		Verb: saga.VerbExecute, Tenant: "t", Transaction: id, Step: "debit", Phase: phase, Kind: saga.KindTCC,
		Participant: "accounts", Action: "debit", Attempt: 3, Revision: 2, ContentSHA256: [32]byte{1},
	}
}

// barrierDone is what the tests' handlers return.
func barrierDone(phase saga.Phase) saga.Ran {
	return saga.Ran{Outcome: saga.OutcomeDone, Result: saga.Payload{Type: "text/plain", Data: []byte(phase + "-result")}}
}

// barrierExecute runs a command to its end with a handler that records its effect.
func barrierExecute(ctx context.Context, b *Barrier, cmd saga.Command, ran saga.Ran) (saga.Reply, error) {
	e, err := b.Enter(ctx, cmd)
	if err != nil {
		return saga.Reply{}, err
	}
	defer e.Abandon(ctx)
	switch e.Verdict.Do {
	case saga.DoReply:
		return e.Verdict.Reply, nil
	case saga.DoRun:
		if err := barrierEffect(ctx, e.Tx(), cmd); err != nil {
			return saga.Reply{}, err
		}
		return e.Conclude(ctx, ran)
	default:
		return saga.Reply{}, fmt.Errorf("verdict %s", e.Verdict.Do)
	}
}

func barrierEffect(ctx context.Context, tx pgx.Tx, cmd saga.Command) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (transaction_id, phase) VALUES ($1::uuid, $2::text)", uuid(cmd.Transaction), string(cmd.Phase))
	return err
}

func mustExecute(t *testing.T, b *Barrier, cmd saga.Command, ran saga.Ran) saga.Reply {
	t.Helper()
	reply, err := barrierExecute(t.Context(), b, cmd, ran)
	if err != nil {
		t.Fatalf("%s %s: %v", cmd.Verb, cmd.Phase, err)
	}
	return reply
}

// barrierEffectsOf counts the effects of a transaction's phase.
func barrierEffectsOf(t *testing.T, pool *pgxpool.Pool, id saga.ID, phase saga.Phase) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM effects WHERE transaction_id = $1 AND phase = $2", [16]byte(id), string(phase)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// barrierInsert is the statement that puts a row into the table as it is.
func barrierInsert(id saga.ID, row saga.BarrierRow) (string, []any) {
	sha := func(r saga.Recorded) []byte {
		if r.ContentSHA256 == [32]byte{} {
			return nil
		}
		return r.ContentSHA256[:]
	}
	var until *time.Time
	if !row.LeaseUntil.IsZero() {
		until = &row.LeaseUntil
	}
	return `INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state, lease_until, lease_token, try_sha256, confirm_sha256, cancel_sha256,
		try_revision, confirm_revision, cancel_revision, try_min_revision, confirm_min_revision, cancel_min_revision,
		try_outcome, try_code, try_reason, try_result, try_result_type, confirm_result, confirm_result_type, cancel_result, cancel_result_type)
		VALUES ($1, 'debit', 't', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)`,
		[]any{
			[16]byte(id), string(row.Kind), string(row.State), until, zeronull.Int8(row.LeaseToken),
			sha(row.Try), sha(row.Confirm), sha(row.Cancel),
			zeronull.Int4(row.Try.Revision), zeronull.Int4(row.Confirm.Revision), zeronull.Int4(row.Cancel.Revision),
			zeronull.Int4(row.Try.MinRevision), zeronull.Int4(row.Confirm.MinRevision), zeronull.Int4(row.Cancel.MinRevision),
			zeronull.Text(row.Try.Reply.Outcome), zeronull.Text(row.Try.Reply.Code), zeronull.Text(row.Try.Reply.Reason),
			row.Try.Reply.Result.Data, zeronull.Text(row.Try.Reply.Result.Type),
			row.Confirm.Reply.Result.Data, zeronull.Text(row.Confirm.Reply.Result.Type),
			row.Cancel.Reply.Result.Data, zeronull.Text(row.Cancel.Reply.Result.Type),
		}
}

const barrierSelect = `SELECT kind, state, lease_until, lease_token, try_sha256, confirm_sha256, cancel_sha256,
	try_revision, confirm_revision, cancel_revision, try_min_revision, confirm_min_revision, cancel_min_revision,
	try_outcome, try_code, try_reason, try_result, try_result_type, confirm_result, confirm_result_type, cancel_result, cancel_result_type
	FROM saga.barrier WHERE transaction_id = $1 AND step = 'debit' AND tenant = 't'`

// barrierScan reads what barrierSelect returns; no row is the zero row.
func barrierScan(r pgx.Row) (row saga.BarrierRow, err error) {
	var (
		kind, state, outcome, code, reason zeronull.Text
		types                              [3]zeronull.Text
		revisions, minRevisions            [3]zeronull.Int4
		shas, results                      [3][]byte
		until                              *time.Time
		token                              zeronull.Int8
	)
	err = r.Scan(&kind, &state, &until, &token, &shas[0], &shas[1], &shas[2], &revisions[0], &revisions[1], &revisions[2],
		&minRevisions[0], &minRevisions[1], &minRevisions[2], &outcome, &code, &reason,
		&results[0], &types[0], &results[1], &types[1], &results[2], &types[2])
	if errors.Is(err, pgx.ErrNoRows) {
		return saga.BarrierRow{}, nil
	}
	row = saga.BarrierRow{State: saga.BarrierState(state), Kind: saga.Kind(kind), LeaseToken: int64(token)}
	if until != nil {
		row.LeaseUntil = *until
	}
	for i, rec := range []*saga.Recorded{&row.Try, &row.Confirm, &row.Cancel} {
		copy(rec.ContentSHA256[:], shas[i])
		rec.Revision, rec.MinRevision = int(revisions[i]), int(minRevisions[i])
		rec.Reply.Result = saga.Payload{Type: string(types[i]), Data: results[i]}
		if i > 0 && shas[i] != nil {
			rec.Reply.Outcome = saga.OutcomeDone
		}
	}
	row.Try.Reply.Outcome, row.Try.Reply.Code, row.Try.Reply.Reason = saga.Outcome(outcome), string(code), string(reason)
	return row, err
}

func barrierRowOf(t *testing.T, pool *pgxpool.Pool, id saga.ID) saga.BarrierRow {
	t.Helper()
	row, err := barrierScan(pool.QueryRow(t.Context(), barrierSelect, [16]byte(id)))
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// barrierText shows everything of a row or reply but the instants, which two clocks cannot agree about.
func barrierText(v any) string {
	switch v := v.(type) {
	case saga.BarrierRow:
		if v.State == saga.BarrierAbsent && v.Try.MinRevision+v.Confirm.MinRevision+v.Cancel.MinRevision == 0 {
			v = saga.BarrierRow{}
		}
		v.LeaseUntil = time.Time{}
		return fmt.Sprintf("%+v", v)
	case saga.Reply:
		waits := v.RetryAfter > 0
		v.RetryAfter = 0
		return fmt.Sprintf("%+v waits %t", v, waits)
	}
	return fmt.Sprintf("%+v", v)
}

// barrierStates are rows to begin with, besides none.
func barrierStates(kind saga.Kind) map[string]saga.BarrierRow {
	rec := func(text string) saga.Recorded {
		return saga.Recorded{
			ContentSHA256: [32]byte{1}, Revision: 2,
			Reply: saga.StoredReply{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: []byte(text)}},
		}
	}
	refused := rec("")
	refused.Reply = saga.StoredReply{Outcome: saga.OutcomeRefused, Code: "no_money", Reason: "only 3 left"}
	try, confirm, cancel := rec("try-result"), rec("confirm-result"), rec("cancel-result")
	trying := saga.BarrierRow{State: saga.BarrierTrying, Kind: kind, LeaseToken: 7, Try: saga.Recorded{ContentSHA256: [32]byte{1}, Revision: 2}}
	live, over := trying, trying
	live.LeaseUntil, over.LeaseUntil = time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	return map[string]saga.BarrierRow{
		"none":           {},
		"trying, live":   live,
		"trying, over":   over,
		"tried":          {State: saga.BarrierTried, Kind: kind, Try: try},
		"refused":        {State: saga.BarrierRefused, Kind: kind, Try: refused},
		"confirmed":      {State: saga.BarrierConfirmed, Kind: kind, Try: try, Confirm: confirm},
		"cancelled":      {State: saga.BarrierCancelled, Kind: kind, Try: try, Cancel: cancel},
		"null_cancelled": {State: saga.BarrierNullCancelled, Kind: kind, Cancel: cancel},
	}
}
