package participant_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?pool_max_conns=4&pool_min_conns=0")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	good := participant.Config{Name: "accounts", Pool: pool, NATS: &nats.Conn{}}
	if _, err := participant.New(good); err != nil {
		t.Errorf("zero values: %v", err)
	}
	for want, change := range map[string]func(c *participant.Config){
		"participant name":           func(c *participant.Config) { c.Name = "a.b" },
		"Pool is nil":                func(c *participant.Config) { c.Pool = nil },
		"NATS is nil":                func(c *participant.Config) { c.NATS = nil },
		"Concurrency is -1":          func(c *participant.Config) { c.Concurrency = -1 },
		"the pool has only 4":        func(c *participant.Config) { c.Concurrency = 5 },
		"a timeout is negative":      func(c *participant.Config) { c.HandlerTimeout = -1 },
		"DeliveriesMax is -1":        func(c *participant.Config) { c.DeliveriesMax = -1 },
		"GroupMax is 65":             func(c *participant.Config) { c.GroupMax = 65 },
		"subject prefix is":          func(c *participant.Config) { c.Prefix = "a b" },
		"AckWait is 1ms; use 100ms ": func(c *participant.Config) { c.AckWait = time.Millisecond },
	} {
		c := good
		change(&c)
		if _, err := participant.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestHandlePanicsAtMistakes(t *testing.T) {
	t.Parallel()
	try := func(context.Context, pgx.Tx, participant.Call[int]) (int, error) { return 0, nil }
	settle := func(context.Context, pgx.Tx, participant.Settle[int, int]) error { return nil }
	k := newKit(t)
	p := k.new()
	participant.Handle(p, "taken", participant.Pivot[int, int]{Try: try})
	for name, h := range map[string]participant.Handler{
		"":        participant.Pivot[int, int]{Try: try},
		"a b":     participant.Pivot[int, int]{Try: try},
		"taken":   participant.Pivot[int, int]{Try: try},
		"nil":     nil,
		"no-try":  participant.Retriable[int, int]{},
		"no-undo": participant.Saga[int, int]{Try: try},
		"no-use":  participant.TCC[int, int]{Try: try, Cancel: settle},
	} {
		if message := panicOf(func() { participant.Handle(p, name, h) }); !strings.HasPrefix(message, "participant: ") {
			t.Errorf("action %q: panic %q", name, message)
		}
	}
	k.run(p).stop()
	if message := panicOf(func() { participant.Handle(p, "late", participant.Pivot[int, int]{Try: try}) }); message == "" {
		t.Error("an action can be added after Run")
	}
	if got := fmt.Sprint(p.Name(), " ", p.Actions()); got != "bank-a [taken]" {
		t.Error(got)
	}
}

func panicOf(f func()) (message string) {
	defer func() {
		if v := recover(); v != nil {
			message = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

// S1.6: what a handler gets and gives are the user's bytes.
func TestPayloads(t *testing.T) {
	t.Parallel()
	type In struct {
		Amount any `json:"amount"`
	}
	k := newKit(t)
	p := k.new()
	seen := make(chan string, 10)
	participant.Handle(p, "raw", participant.TCC[saga.Payload, saga.Payload]{
		Try: func(_ context.Context, _ pgx.Tx, c participant.Call[saga.Payload]) (saga.Payload, error) {
			quote, err := participant.Result[saga.Payload](c, "quote")
			seen <- fmt.Sprintf("%s %s | %s", c.Input.Type, c.Input.Data, quote.Data)
			return saga.Payload{Type: "text/plain", Data: []byte("a\x00b")}, err
		},
		Confirm: func(_ context.Context, _ pgx.Tx, c participant.Settle[saga.Payload, saga.Payload]) error {
			seen <- fmt.Sprintf("%s %q", c.Try.Type, c.Try.Data)
			return nil
		},
		Cancel: func(_ context.Context, _ pgx.Tx, c participant.Settle[saga.Payload, saga.Payload]) error {
			seen <- fmt.Sprint(c.Try == nil)
			return nil
		},
	})
	participant.Handle(p, "typed", participant.Pivot[In, participant.None]{
		Try: func(_ context.Context, _ pgx.Tx, c participant.Call[In]) (participant.None, error) {
			_, err := participant.Result[int](c, "quote")
			seen <- fmt.Sprintf("%T %v %s %s", c.Input.Amount, c.Input.Amount, c.InputRaw.Data, c.Key())
			return participant.None{}, err
		},
	})
	participant.Handle(p, "bad", participant.Pivot[participant.None, saga.Payload]{
		Try: func(context.Context, pgx.Tx, participant.Call[participant.None]) (saga.Payload, error) {
			return saga.Payload{Data: []byte("not JSON")}, nil
		},
	})
	k.run(p)

	raw := k.command("raw", saga.KindTCC, saga.PhaseTry, nil)
	input := saga.Payload{Type: "text/csv", Data: []byte("1,2")}
	raw = withBody(raw, saga.TryBody(input, []saga.NamedPayload{{Step: "quote", Payload: saga.Payload{Data: []byte(`{ "rate": 1.50 }`)}}}))
	r := k.do(raw)
	want(t, r, saga.OutcomeDone, "")
	if r.Result.Type != "text/plain" || string(r.Result.Data) != "a\x00b" {
		t.Errorf("result %+v", r.Result)
	}
	got := []string{wait(t, "the try", seen)}
	confirm := raw
	confirm.Phase = saga.PhaseConfirm
	want(t, k.do(withBody(confirm, saga.SettleBody(input, r.Result))), saga.OutcomeDone, "")
	got = append(got, wait(t, "the confirm", seen))
	typed := k.command("typed", saga.KindPivot, saga.PhaseTry, nil)
	typed = withBody(typed, saga.TryBody(saga.Payload{Data: []byte(`{"amount": 12345678901234567890, "more": 1}`)}, nil))
	want(t, k.do(typed), saga.OutcomeFault, saga.FaultUndecodable) // it returned ErrNoResult
	got = append(got, wait(t, "the typed try", seen))
	wanted := []string{
		`text/csv 1,2 | { "rate": 1.50 }`,
		`text/plain "a\x00b"`,
		`json.Number 12345678901234567890 {"amount": 12345678901234567890, "more": 1} ` + typed.Key().String(),
	}
	for i := range wanted {
		if got[i] != wanted[i] {
			t.Errorf("got %s, want %s", got[i], wanted[i])
		}
	}
	want(t, k.do(k.command("bad", saga.KindPivot, saga.PhaseTry, nil)), saga.OutcomeFault, saga.FaultHandler)
}
