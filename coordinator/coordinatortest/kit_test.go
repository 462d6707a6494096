package coordinatortest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/saga"
)

// limit is for what must take milliseconds, on a slow machine.
const limit = 20 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// submit starts a transaction and waits for what becomes of it.
func submit(t *testing.T, c *coordinatortest.Coordinator, def *saga.Definition, options ...func(*client.Submission)) client.Transaction {
	t.Helper()
	s := client.Submission{Definition: def, Input: map[string]int{"cents": 100}}
	for _, o := range options {
		o(&s)
	}
	got, err := c.Client().Submit(within(t), s, client.SubmitOptions{Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return *got.Transaction
}

func wantStatus(t *testing.T, tx client.Transaction, status saga.Status) {
	t.Helper()
	if tx.Status != status {
		t.Errorf("the transaction is %s, want %s: %+v", tx.Status, status, tx)
	}
}

// wantCause checks why it was cancelled.
func wantCause(t *testing.T, tx client.Transaction, why saga.Why, step, code string) {
	t.Helper()
	wantStatus(t, tx, saga.StatusCancelled)
	if tx.Cause == nil || tx.Cause.Why != why || tx.Cause.Step != step || tx.Cause.Code != code {
		t.Errorf("the cause is %+v, want %s %s %s", tx.Cause, why, step, code)
	}
}

func wantCalls(t *testing.T, c *coordinatortest.Coordinator, want ...string) {
	t.Helper()
	if got := texts(c.Calls()); !slices.Equal(got, want) {
		t.Errorf("the calls are %q, want %q", got, want)
	}
}

func texts(calls []coordinatortest.Call) (list []string) {
	for _, call := range calls {
		list = append(list, call.String())
	}
	return list
}

func wantProblem(t *testing.T, err error, status int, code string) {
	t.Helper()
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != status || p.Code != code {
		t.Errorf("the error is %v, want %d %s", err, status, code)
	}
}

// letter returns the one dead letter that is open.
func letter(t *testing.T, cl *client.Client) client.DeadLetter {
	t.Helper()
	page, err := cl.DeadLetters(within(t), client.DeadLetterFilter{Status: saga.DeadLetterOpen})
	if err != nil || len(page.DeadLetters) != 1 {
		t.Fatalf("open dead letters: %+v, %v; want one", page.DeadLetters, err)
	}
	return page.DeadLetters[0]
}

// recorder is a test that may fail without failing the one it is part of.
type recorder struct {
	testing.TB
	errors, logs []string
	cleanups     []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool              { return len(r.errors) > 0 }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) Logf(f string, a ...any)   { r.logs = append(r.logs, fmt.Sprintf(f, a...)) }

func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

// one is a definition of one step, of participant p and action do.
func one(kind saga.Kind, options ...saga.StepOption) *saga.Definition {
	b := saga.Define("one")
	switch kind {
	case saga.KindSaga:
		b.Saga("a", "p", "do", options...)
	case saga.KindTCC:
		b.TCC("a", "p", "do", options...)
	case saga.KindPivot:
		b.Pivot("a", "p", "do", options...)
	default:
		b.Retriable("a", "p", "do", options...)
	}
	return b.MustBuild()
}

func rawBody(def *saga.Definition, input string) []byte {
	return fmt.Appendf(nil, `{"definition":%s,"input":%s}`, def.JSON(), json.RawMessage(input))
}
