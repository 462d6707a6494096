package participanttest

import (
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

// A reply repeats the revision and the content hash of its command, whatever its outcome (U2). Only a command that
// could not be read may be answered without its hash.
func TestRepeats(t *testing.T) {
	t.Parallel()
	cmd := saga.Command{Verb: saga.VerbExecute, Phase: saga.PhaseTry, Attempt: 1, Revision: 2, ContentSHA256: [32]byte{1}}
	for name, test := range map[string]struct {
		change func(*saga.Reply)
		want   bool
	}{
		"the same":               {func(*saga.Reply) {}, true},
		"another revision":       {func(r *saga.Reply) { r.Revision = 1 }, false},
		"another hash":           {func(r *saga.Reply) { r.ContentSHA256[31] = 1 }, false},
		"no hash":                {func(r *saga.Reply) { r.ContentSHA256 = [32]byte{} }, false},
		"no hash, conflict":      {func(r *saga.Reply) { *r = faulty(*r, saga.FaultConflict, [32]byte{}) }, false},
		"no hash, undecodable":   {func(r *saga.Reply) { *r = faulty(*r, saga.FaultUndecodable, [32]byte{}) }, true},
		"wrong and undecodable":  {func(r *saga.Reply) { *r = faulty(*r, saga.FaultUndecodable, [32]byte{2}) }, false},
		"undecodable, as it was": {func(r *saga.Reply) { *r = faulty(*r, saga.FaultUndecodable, cmd.ContentSHA256) }, true},
	} {
		r := saga.AnswerTo(cmd)
		r.Outcome = saga.OutcomeDone
		test.change(&r)
		if got := (answer{reply: r}).repeats(cmd); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func faulty(r saga.Reply, code string, sha [32]byte) saga.Reply {
	r.Outcome, r.Code, r.ContentSHA256 = saga.OutcomeFault, code, sha
	return r
}
