package coordinatortest_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/saga"
)

// The same key and body get the same bytes and one transaction, another body is refused (I1, I2).
func TestRequestKeys(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindSaga)
	ctx, cl, key := within(t), c.Client(), client.SubmitOptions{RequestID: "k"}
	first, err := cl.SubmitBytes(ctx, rawBody(one(saga.KindSaga), `1`), key)
	if err != nil || first.Replayed {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := cl.SubmitBytes(ctx, rawBody(one(saga.KindSaga), `1`), key)
	if err != nil || !second.Replayed || !bytes.Equal(first.Answer, second.Answer) {
		t.Errorf("second: %+v, %v; want the bytes of the first: %s", second, err, first.Answer)
	}
	_, err = cl.SubmitBytes(ctx, rawBody(one(saga.KindSaga), `2`), key)
	wantProblem(t, err, 422, client.CodeKeyReused)
	_, err = cl.SubmitBytes(ctx, []byte(`{"definition":{"name":"x","steps":[]}}`), client.SubmitOptions{})
	wantProblem(t, err, 400, "invalid_steps")
	wantCalls(t, c, "a/try done")

	found, err := cl.FindByRequest(ctx, "k")
	if err != nil || found.ID != first.ID || found.Status != saga.StatusCommitted {
		t.Errorf("found by request: %+v, %v", found, err)
	}
	_, err = cl.FindByRequest(ctx, "other")
	wantProblem(t, err, 404, client.CodeNotFound)
	_, err = cl.Get(ctx, saga.FirstIDAt(c.Now()))
	wantProblem(t, err, 404, client.CodeNotFound)
}

// An id of the client's own may be used once.
func TestOwnID(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindSaga)
	s := client.Submission{Definition: one(saga.KindSaga), ID: saga.FirstIDAt(c.Now())}
	for i, want := range []string{"", client.CodeIDTaken} {
		got, err := c.Client().Submit(within(t), s, client.SubmitOptions{})
		if want != "" {
			wantProblem(t, err, 409, want)
		} else if err != nil || got.ID != s.ID {
			t.Errorf("submission %d: %+v, %v", i, got, err)
		}
	}
	s.ID = saga.FirstIDAt(c.Now().Add(-time.Hour))
	_, err := c.Client().Submit(within(t), s, client.SubmitOptions{})
	wantProblem(t, err, 400, "invalid_id")
}

func TestNamedDefinitions(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindTCC)
	ctx, cl := within(t), c.Client()
	s, key := client.Submission{Registered: "one"}, client.SubmitOptions{RequestID: "k"}
	_, err := cl.Submit(ctx, s, key)
	wantProblem(t, err, 400, "unknown_definition")
	for range 2 {
		if _, err := cl.RegisterDefinition(ctx, one(saga.KindTCC).JSON()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = cl.RegisterDefinition(ctx, one(saga.KindSaga).JSON())
	wantProblem(t, err, 409, client.CodeDefinitionTaken)
	first, err := cl.Submit(ctx, s, key)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := cl.DrainDefinition(ctx, "one", 1, "old"); err != nil || d.State != "draining" {
		t.Errorf("drained: %+v, %v", d, err)
	}
	_, err = cl.Submit(ctx, s, client.SubmitOptions{})
	wantProblem(t, err, 409, "definition_draining")
	again, err := cl.Submit(ctx, s, key) // accepted before it was drained
	if err != nil || again.ID != first.ID || !again.Replayed {
		t.Errorf("a repetition: %+v, %v", again, err)
	}
	_, err = cl.Submit(ctx, client.Submission{Registered: "one@1"}, key)
	wantProblem(t, err, 422, client.CodeKeyReused)
	if list, err := cl.Definitions(ctx, "one"); err != nil || len(list) != 1 || list[0].Version != 1 {
		t.Errorf("definitions: %+v, %v", list, err)
	}
}

func TestListAndExplain(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Fault("a bug"))
	ctx, cl := within(t), c.Client()
	for range 3 {
		submit(t, c, one(saga.KindSaga))
	}
	suspended := true
	var ids []saga.ID
	for tx, err := range cl.All(ctx, client.Filter{Suspended: &suspended, Status: saga.StatusRunning, Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, tx.ID)
	}
	if len(ids) != 3 || ids[0] != c.Last().ID {
		t.Errorf("listed %v, want all three, the newest first", ids)
	}
	x, err := cl.Explain(ctx, ids[0])
	replay := slices.IndexFunc(x.Options, func(o client.Option) bool { return o.Action == "replay" && o.DeadLetterID != uuid.Nil })
	if err != nil || len(x.Sentences) == 0 || replay < 0 {
		t.Errorf("explained: %+v, %v", x, err)
	}
}

// Cancel works while it is running, and is refused after the commit (S2.9).
func TestClientCancel(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t, coordinatortest.ManualTime())
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Delay(time.Minute, coordinatortest.Done(nil)))
	tx := submit(t, c, one(saga.KindSaga))
	wantStatus(t, tx, saga.StatusRunning)
	if _, err := c.Client().Cancel(within(t), tx.ID, "changed my mind"); err != nil {
		t.Fatal(err)
	}
	c.Advance(2 * time.Minute)
	wantCause(t, c.Transaction(tx.ID), saga.WhyClient, "", "")
	wantCalls(t, c, "a/try done", "a/cancel done") // the cancel waited for the try that was under way

	tx = submit(t, c, one(saga.KindSaga))
	c.Advance(2 * time.Minute)
	_, err := c.Client().Cancel(within(t), tx.ID, "")
	wantProblem(t, err, 409, client.CodeNotCancellable)
}

// A test that forgets a participant or an action fails, and says what happened.
func TestMistakesFailTheTest(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	c := coordinatortest.New(r)
	c.Participant("q").On("other", saga.KindSaga)
	def := saga.Define("two").Timeout(time.Minute).Saga("a", "p", "do", saga.Root()).Saga("b", "q", "do", saga.Root()).MustBuild()
	wantStatus(t, submit(t, c, def), saga.StatusCancelling) // nobody answers the cancel either
	r.end()
	if len(r.errors) != 2 || !strings.Contains(r.errors[0], `participant "p"`) || !strings.Contains(r.errors[1], `action "do" of participant "q"`) {
		t.Errorf("errors: %q", r.errors)
	}
	if len(r.logs) != 1 || !strings.Contains(r.logs[0], "b/try #1 of q retry \"unknown_action\"") || len(r.logs[0]) > 100_000 {
		t.Errorf("logs: %.1000q", r.logs)
	}
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start()
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Do(func(coordinatortest.Call) coordinatortest.Answer {
		return coordinatortest.Done(nil)
	}))
	submit(t, c, one(saga.KindSaga))
	c.Close()
	c.Close()
	cl, err := client.New(c.URL(), client.Options{RetryTime: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Get(context.Background(), saga.FirstIDAt(time.Now())); err == nil {
		t.Error("a closed coordinator answered")
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t, coordinatortest.As("acme", "shop"))
	c.Participant("p").On("do", saga.KindSaga)
	if tx := submit(t, c, one(saga.KindSaga)); tx.Tenant != "acme" || tx.Client != "shop" || c.Calls()[0].Tenant != "acme" {
		t.Errorf("the transaction belongs to %s of %s", tx.Client, tx.Tenant)
	}
}
