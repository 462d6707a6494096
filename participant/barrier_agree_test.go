package participant

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// agreeCase is one row, one command, and how the caller uses the SQL functions.
type agreeCase struct {
	name  string
	id    saga.ID
	row   saga.BarrierRow
	cmd   saga.Command
	lease bool     // an external effect
	ran   saga.Ran // what the handler does if it is called
}

func agreeCases() (cases []agreeCase) {
	now := time.Now()
	deadlines := map[string]time.Time{"none": {}, "in time": now.Add(time.Hour), "late": now.Add(-time.Hour)}
	refused := saga.Ran{Outcome: saga.OutcomeRefused, Code: "no", Reason: "sold out"}
	for _, kind := range []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable} {
		states := barrierStates(kind)
		states["below the floor"] = saga.BarrierRow{PastRetention: true}
		for state, row := range states {
			for _, verb := range []saga.Verb{saga.VerbExecute, saga.VerbInquire, saga.VerbReserve} {
				for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
					for _, content := range []byte{1, 2} {
						for when, deadline := range deadlines {
							for _, minRevision := range []int{0, 2, 3} {
								for _, lease := range []bool{false, true} {
									c := agreeCase{row: row, lease: lease, id: barrierID()}
									c.cmd = barrierCommand(c.id, phase)
									c.cmd.Verb, c.cmd.Kind, c.cmd.Deadline = verb, kind, deadline
									c.cmd.ContentSHA256[0] = content
									agreeReserve(&c.row, kind, phase, minRevision)
									c.ran = barrierDone(phase)
									c.name = fmt.Sprintf("%s, %s, %s %s, content %d, %s, min_revision %d, lease %t", kind, state, verb, phase, content, when, minRevision, lease)
									cases = append(cases, c)
									if verb == saga.VerbExecute && phase == saga.PhaseTry && kind != saga.KindRetriable && !lease {
										c.ran, c.name = refused, c.name+", refuses"
										cases = append(cases, c)
									}
								}
							}
						}
					}
				}
			}
		}
	}
	return cases
}

func agreeReserve(row *saga.BarrierRow, kind saga.Kind, phase saga.Phase, minRevision int) {
	if minRevision == 0 || row.PastRetention {
		return
	}
	row.Kind = kind
	if row.State == "" {
		row.State = saga.BarrierAbsent
	}
	switch phase {
	case saga.PhaseTry:
		row.Try.MinRevision = minRevision
	case saga.PhaseConfirm:
		row.Confirm.MinRevision = minRevision
	case saga.PhaseCancel:
		row.Cancel.MinRevision = minRevision
	}
}

const agreeEnter = `SELECT verdict, keep, outcome, code, reason, state, result, result_type, revision, content_sha256, retry_after_ms, replayed
	FROM saga.barrier_enter($1, $2, $3, $4, $5, $6, $7, $8, p_deadline => $9, p_lock_timeout_ms => $10, p_lease => $11)`

// sql runs the case through the SQL functions, in a transaction that is rolled back to its savepoint.
func (c agreeCase) sql(ctx context.Context, tx pgx.Tx) (v saga.Verdict, reply saga.Reply, row saga.BarrierRow, err error) {
	var batch pgx.Batch
	batch.Queue("SAVEPOINT c")
	if c.row.State != "" {
		insert, args := barrierInsert(c.id, c.row)
		batch.Queue(insert, args...)
	}
	if c.row.PastRetention {
		above := c.id
		above[15]++
		batch.Queue("UPDATE saga.barrier_floor SET floor = $1", [16]byte(above))
	}
	var got verdictRow
	if c.cmd.Verb == saga.VerbInquire {
		batch.Queue(sqlInquire, c.cmd.Tenant, [16]byte(c.id), c.cmd.Step, string(c.cmd.Phase), c.cmd.ContentSHA256[:], c.cmd.Revision).QueryRow(got.scan)
	} else {
		var lease *time.Duration
		if c.lease {
			hour := time.Hour
			lease = &hour
		}
		batch.Queue(agreeEnter, append(enterArgs(c.cmd, time.Second), lease)...).QueryRow(got.scan)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return v, reply, row, err
	}
	v = got.verdict(c.cmd)
	reply = v.Reply
	batch = pgx.Batch{}
	if v.Do == saga.DoRun && !c.lease {
		concluded, _ := saga.Conclude(saga.BarrierRow{}, c.cmd, c.ran)
		reply = concluded.Reply
		batch.Queue(sqlLeave, leaveArgs(reply)...)
	}
	batch.Queue(barrierSelect, [16]byte(c.id)).QueryRow(func(r pgx.Row) (err error) {
		row, err = barrierScan(r)
		return err
	})
	batch.Queue("ROLLBACK TO SAVEPOINT c")
	return v, reply, row, tx.SendBatch(ctx, &batch).Close()
}

// pure runs the case through package saga.
func (c agreeCase) pure() (v saga.Verdict, reply saga.Reply, row saga.BarrierRow) {
	v, row = saga.Admit(c.row, c.cmd, time.Now())
	reply = v.Reply
	switch {
	case c.lease && (v.Do == saga.DoInquire || v.Do == saga.DoRun && c.cmd.Phase == saga.PhaseTry):
		row = saga.Claim(row, c.cmd, time.Now().Add(time.Hour))
		v.Store = true // the claim
	case v.Do == saga.DoRun && !c.lease:
		var concluded saga.Verdict
		concluded, row = saga.Conclude(row, c.cmd, c.ran)
		reply = concluded.Reply
	}
	row.PastRetention = false // of the table, not of the row
	return v, reply, row
}

// TestBarrierAgrees: B8. saga.Admit, saga.Conclude and saga.Claim agree with the SQL functions about every row
// state × operation × content × kind × deadline × revision × lease: verdict, reply and the row that is left.
func TestBarrierAgrees(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	cases := agreeCases()
	seen := map[saga.Do]int{}
	for _, c := range cases {
		v, reply, row, err := c.sql(t.Context(), tx)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		wantV, wantReply, wantRow := c.pure()
		if v.Do != wantV.Do || v.Store != wantV.Store || barrierText(reply) != barrierText(wantReply) {
			t.Errorf("%s: SQL says\n %s store %t %s, saga says\n %s store %t %s", c.name, v.Do, v.Store, barrierText(reply), wantV.Do, wantV.Store, barrierText(wantReply))
		}
		// A fresh try that was let through is in the table as entered until barrier_leave.
		if barrierText(row) != barrierText(wantRow) {
			t.Errorf("%s: SQL leaves\n %s, saga leaves\n %s", c.name, barrierText(row), barrierText(wantRow))
		}
		seen[v.Do]++
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d cases: %v", len(cases), seen)
}
