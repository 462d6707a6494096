package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// E1: a transaction that waits for a person says so, names the dead letter, and what can be done.
func TestExplain(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	letter, transaction := l.bury()
	e := decode[api.Explanation](l.get(transaction + "/explain").expect(200))
	if e.Status != "running" || e.Result != "unknown" || !e.Suspended || e.At.IsZero() || transactionOf(transaction) != e.ID {
		t.Errorf("got %+v", e)
	}
	if len(e.Waits) != 1 || e.Waits[0].For != "person" || e.Waits[0].Step != "a" || e.Waits[0].Participant != "ill" {
		t.Errorf("waits %+v", e.Waits)
	}
	text := strings.Join(e.Sentences, "\n")
	for _, says := range []string{"is a dead letter", `"cannot read \"amount\" of order 17"`, "can be replayed", "can be cancelled", "The deadline is in 2"} {
		if !strings.Contains(text, says) {
			t.Errorf("it does not say %q:\n%s", says, text)
		}
	}
	replay := e.Options[slices.IndexFunc(e.Options, func(o api.Option) bool { return o.Action == "replay" })]
	if !replay.Possible || !replay.Changes || replay.DeadLetterID != letter || replay.Step != "a" || replay.Phase != "try" {
		t.Errorf("got %+v", replay)
	}

	c, err := client.New(l.server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := saga.ParseID(e.ID)
	if err != nil {
		t.Fatal(err)
	}
	same, err := c.Explain(t.Context(), id)
	if err != nil || same.ID != id || len(same.Sentences) != len(e.Sentences) || same.Waits[0].For != saga.WaitForPerson || same.Options[0].DeadLetterID.String() != letter {
		t.Errorf("the client reads %+v, %v", same, err)
	}

	l.get("/v1/transactions/"+fakeID.String()+"/explain").problem(404, "not_found")
	l.get("/v1/transactions/x/explain").problem(400, "invalid_id")
	l.get(transaction+"/explain?verbose=1").problem(400, "invalid_query")
}

func transactionOf(path string) string { return path[len("/v1/transactions/"):] }
