package notify_test

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

var silent = notify.Notice{Kind: notify.KindBreakerOpen, Group: "bank", Object: "/v1/participants", Summary: "bank is silent"}

// A delivery that fails is made again, with the same id and bytes, and is signed anew.
func TestDeliveryIsRepeated(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	url, all := listen(t, func(n int) int { return map[int]int{1: 500, 2: 302}[n] + map[bool]int{true: 204}[n > 2] })
	w, secret := create(t, pool, notify.WebhookParams{URL: url, Kinds: []notify.Kind{notify.KindBreakerOpen}})
	insert(t, pool, silent)
	insert(t, pool, notify.Notice{Kind: notify.KindPaused, Group: "x"}) // it does not want to know
	run(t, pool)
	first := next(t, all)
	for range 2 {
		again := next(t, all)
		if again.body != first.body || again.header.Get(notify.HeaderID) != first.header.Get(notify.HeaderID) {
			t.Errorf("first %v\nthen %v", first, again)
		}
		seconds, err := strconv.ParseInt(again.header.Get(notify.HeaderTimestamp), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		want, err := notify.Sign(secret, again.header.Get(notify.HeaderID), time.Unix(seconds, 0), []byte(again.body))
		if err != nil || again.header.Get(notify.HeaderSignature) != want {
			t.Errorf("signed %q, want %q (%v)", again.header.Get(notify.HeaderSignature), want, err)
		}
	}
	until(t, "it is delivered", func() bool {
		list := deliveries(t, pool, w.ID)
		return len(list) == 1 && list[0].Status == notify.StatusDelivered && list[0].Attempts == 3 && list[0].Answer == 204
	})
	if len(all) > 0 || strings.Contains(first.body, secret) {
		t.Errorf("more came, or the secret: %s", first.body)
	}
}

// The signature is that of Standard Webhooks: this is a published example.
func TestSign(t *testing.T) {
	t.Parallel()
	got, err := notify.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("got %s, want %s (%v)", got, want, err)
	}
}

// A target that is dead makes no other wait, and in the end its delivery has failed, and is listed.
func TestDeadTarget(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	deaf, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections, answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	bad, badAll := listen(t, always(500))
	good, all := listen(t, always(200))
	create(t, pool, notify.WebhookParams{URL: "http://" + deaf.Addr().String()})
	w, _ := create(t, pool, notify.WebhookParams{URL: bad})
	create(t, pool, notify.WebhookParams{URL: good})
	for i := range 5 {
		insert(t, pool, notify.Notice{Kind: notify.KindJobEnded, Group: fmt.Sprint(i)})
	}
	run(t, pool)
	for range 5 {
		next(t, all)
	}
	for range 15 {
		next(t, badAll)
	}
	until(t, "all have failed", func() bool {
		list, err := notify.Deliveries(t.Context(), pool, notify.DeliveryFilter{Webhook: w.ID, Status: notify.StatusFailed})
		return err == nil && len(list) == 5 && list[0].Attempts == 3 && list[0].Problem == "it answers HTTP 500" && !list[0].EndedAt.IsZero()
	})
	if n := len(badAll); n > 0 {
		t.Errorf("%d attempts too many", n)
	}
}

// Of one kind and group there is one delivery at once, and what follows is told together when the window is over.
func TestBurstIsToldTogether(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	url, all := listen(t, always(200))
	w, _ := create(t, pool, notify.WebhookParams{URL: url})
	insert(t, pool, silent)
	stop := run(t, pool)
	next(t, all)
	batch := &pgx.Batch{}
	var list []notify.Notice
	for range 1000 {
		list = append(list, silent)
	}
	if err := notify.Queue(batch, list...); err != nil || batch.Len() != 1 {
		t.Fatalf("%d rows for one group, %v", batch.Len(), err)
	}
	if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	insert(t, pool, silent)
	insert(t, pool, notify.Notice{Kind: notify.KindBreakerOpen, Group: "other"})
	if one := next(t, all); !strings.Contains(one.body, `"group":"other"`) {
		t.Errorf("within the window came %s", one.body)
	}
	stop()
	run(t, pool, func(c *notify.Config) { c.Window = time.Millisecond })
	if one := next(t, all); !strings.Contains(one.body, `"count":1001`) {
		t.Errorf("after the window came %s", one.body)
	}
	until(t, "all are delivered", func() bool { return len(deliveries(t, pool, w.ID)) == 3 })
}

// A target inside is refused when it is connected to, whatever its name says, unless that is allowed.
func TestPrivateTargets(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	url, all := listen(t, always(200))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	w, _ := create(t, pool, notify.WebhookParams{URL: "http://localhost:" + port})
	insert(t, pool, silent)
	run(t, pool, func(c *notify.Config) { c.AllowPrivate = false })
	until(t, "it has failed", func() bool {
		list := deliveries(t, pool, w.ID)
		return len(list) == 1 && list[0].Status == notify.StatusFailed && strings.Contains(list[0].Problem, "not a public one")
	})
	if len(all) > 0 {
		t.Error("it was told all the same")
	}
}

// What is wrong with a webhook is said when it is registered, without repeating it.
func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	for _, c := range []struct {
		p    notify.WebhookParams
		code string
	}{
		{notify.WebhookParams{URL: "nothing"}, notify.CodeInvalidURL},
		{notify.WebhookParams{URL: "http://example.com/hidden"}, notify.CodeInvalidURL},
		{notify.WebhookParams{URL: "ftp://example.com/hidden", AllowPrivate: true}, notify.CodeInvalidURL},
		{notify.WebhookParams{URL: "https://user:hidden@example.com/"}, notify.CodeInvalidURL},
		{notify.WebhookParams{URL: "https://127.0.0.1/hidden"}, notify.CodeInvalidURL},
		{notify.WebhookParams{URL: "https://[::ffff:10.0.0.1]/hidden"}, notify.CodeInvalidURL},
		{notify.WebhookParams{URL: "https://169.254.169.254/hidden"}, notify.CodeInvalidURL},
		{notify.WebhookParams{URL: "https://example.com", Secret: "hidden"}, notify.CodeInvalidSecret},
		{notify.WebhookParams{URL: "https://example.com", Kinds: []notify.Kind{"hidden"}}, "invalid_value"},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, _, err := notify.Create(t.Context(), tx, c.p)
			return err
		})
		var invalid *saga.InvalidError
		if !errors.As(err, &invalid) || invalid.Code != c.code || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%+v: %v", c.p, err)
		}
	}
	for range notify.WebhooksMax {
		create(t, pool, notify.WebhookParams{URL: "https://example.com"})
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, _, err := notify.Create(t.Context(), tx, notify.WebhookParams{URL: "https://example.com"})
		return err
	})
	var invalid *saga.InvalidError
	if !errors.As(err, &invalid) || invalid.Code != notify.CodeTooManyWebhooks {
		t.Errorf("one more: %v", err)
	}
	if _, err := notify.Deliveries(t.Context(), pool, notify.DeliveryFilter{Webhook: uuid.New()}); !errors.Is(err, notify.ErrNotFound) {
		t.Errorf("of no webhook: %v", err)
	}
}
