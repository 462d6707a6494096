package participant

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/sagacity-tx/sagacity/saga"
)

// verdictRow is the type saga.barrier_verdict.
type verdictRow struct {
	do, outcome, code, reason, state, resultType zeronull.Text
	keep, replayed                               bool
	result, sha                                  []byte
	revision                                     int
	retryAfterMS                                 zeronull.Int8
}

func (v *verdictRow) scan(row pgx.Row) error { return v.scanInto(row) }

// scanLease scans the token of the lease too.
func (v *verdictRow) scanLease(row pgx.Row, token *int64) error {
	return v.scanInto(row, (*zeronull.Int8)(token))
}

func (v *verdictRow) scanInto(row pgx.Row, more ...any) error {
	var replayed *bool
	err := row.Scan(append([]any{
		&v.do, &v.keep, &v.outcome, &v.code, &v.reason, &v.state, &v.result, &v.resultType,
		&v.revision, &v.sha, &v.retryAfterMS, &replayed,
	}, more...)...)
	v.replayed = replayed != nil && *replayed
	return err
}

// verdict translates into the words of package saga.
func (v *verdictRow) verdict(cmd saga.Command) saga.Verdict {
	out := saga.Verdict{Do: saga.Do(v.do), Store: v.keep}
	if out.Do != saga.DoReply {
		return out
	}
	r := saga.AnswerTo(cmd)
	r.Outcome, r.Code, r.Reason = saga.Outcome(v.outcome), string(v.code), string(v.reason)
	r.Result = saga.Payload{Type: string(v.resultType), Data: v.result}
	r.Revision = v.revision
	copy(r.ContentSHA256[:], v.sha)
	r.RetryAfter = time.Duration(v.retryAfterMS) * time.Millisecond
	r.Replayed = v.replayed
	if r.Outcome == saga.OutcomeState {
		r.State = saga.BarrierState(v.state)
	}
	out.Reply = r
	return out
}

func enterArgs(cmd saga.Command, lockTimeout time.Duration) []any {
	var deadline *time.Time
	if !cmd.Deadline.IsZero() {
		deadline = &cmd.Deadline
	}
	verb := cmd.Verb
	if verb == "" {
		verb = saga.VerbExecute
	}
	return []any{
		cmd.Tenant, uuid(cmd.Transaction), cmd.Step, string(cmd.Phase), string(cmd.Kind), string(verb),
		cmd.ContentSHA256[:], cmd.Revision, deadline, int(lockTimeout.Milliseconds()),
	}
}

// leaveArgs are the arguments that store a reply. Its texts were cleaned by saga.Conclude; a media type that a
// text column cannot hold is cut down to one that it can.
func leaveArgs(r saga.Reply) []any {
	return []any{
		r.Tenant, uuid(r.Transaction), r.Step, string(r.Phase), r.ContentSHA256[:], r.Revision, string(r.Outcome),
		zeronull.Text(r.Code), zeronull.Text(r.Reason), r.Result.Data,
		zeronull.Text(saga.CleanText(r.Result.Type, saga.ReasonBytesMax)),
	}
}

// uuid is an id in a form that pgx can send without knowing the parameter's type.
func uuid(id saga.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
