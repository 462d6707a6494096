package sagacity_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// A hotel that knows nothing of this module but what docs/participants.md and docs/protocol.md say: SQL functions,
// subjects and headers. It books a room, and refuses the next one who wants it (M10).
func TestParticipantInAnyLanguage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := &handmade{t: t, pool: barrierDatabase(t), prefix: w.prefix}
	if _, err := h.pool.Exec(w.ctx, `CREATE TABLE rooms (id int PRIMARY KEY, state text NOT NULL); INSERT INTO rooms VALUES (7, 'free')`); err != nil {
		t.Fatal(err)
	}
	h.run(w.ctx, testdb.NATS(t))
	def := saga.Define("stay").TCC("room", "hotel", "book").MustBuild()
	for i, want := range []saga.Status{saga.StatusCommitted, saga.StatusCancelled} {
		id := w.submit(fmt.Sprintf("stay-%d", i), def, map[string]any{"room": map[string]int{"room": 7}})
		v, err := w.coordinator.Wait(w.ctx, w.caller, id)
		if err != nil || v.Status != want {
			t.Fatalf("got %s, %v; want %s", v.Status, err, want)
		}
		try := v.Steps[0].Operations[0]
		if want == saga.StatusCommitted && string(try.Result.Data) != `{"door":12}` || want == saga.StatusCancelled && v.Cause.Code != "taken" {
			t.Errorf("got the result %s, the cause %+v", try.Result.Data, v.Cause)
		}
	}
	var state string
	if err := h.pool.QueryRow(w.ctx, `SELECT state FROM rooms`).Scan(&state); err != nil || state != "booked" {
		t.Errorf("the room is %s, %v", state, err)
	}
}

type handmade struct {
	t      *testing.T
	pool   *pgxpool.Pool
	js     jetstream.JetStream
	prefix string
}

// run pulls commands until the end of the test.
func (h *handmade) run(ctx context.Context, nc *nats.Conn) {
	h.t.Helper()
	var err error
	if h.js, err = jetstream.New(nc); err != nil {
		h.t.Fatal(err)
	}
	consumer, err := h.js.CreateOrUpdateConsumer(ctx, strings.ToUpper(h.prefix+"_cmd"), jetstream.ConsumerConfig{
		Durable: "hotel", FilterSubject: h.prefix + ".cmd.hotel", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		h.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			m, err := messages.Next()
			if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
				return
			}
			if err == nil {
				err = h.handle(ctx, m)
			}
			if err != nil {
				h.t.Error(err)
			}
		}
	})
	h.t.Cleanup(func() { messages.Stop(); running.Wait() })
}

// handle does the four steps of the page: enter, work, leave and commit; reply; acknowledge.
func (h *handmade) handle(ctx context.Context, m jetstream.Msg) error {
	get := m.Headers().Get
	hash, err := hex.DecodeString(get("Saga-Content-Sha256"))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256([]byte(get("Saga-Action") + "\n" + string(m.Data()))); string(sum[:]) != string(hash) {
		return errors.New("the content hash differs")
	}
	outcome, code, reason, result, err := h.transaction(ctx, get, hash)
	if err != nil {
		return err
	}
	reply := nats.NewMsg(get("Saga-Reply-To"))
	for _, name := range []string{
		"Saga-Verb", "Saga-Tenant", "Saga-Transaction", "Saga-Step", "Saga-Phase", "Saga-Participant", "Saga-Attempt", "Saga-Revision",
		"Saga-Content-Sha256",
	} {
		reply.Header[name] = []string{get(name)}
	}
	reply.Header["Saga-Outcome"] = []string{outcome}
	reply.Header["Nats-Msg-Id"] = []string{get("Nats-Msg-Id") + "/reply/" + outcome}
	for name, value := range map[string]string{"Saga-Code": code, "Saga-Reason": reason} {
		if value != "" {
			reply.Header[name] = []string{value}
		}
	}
	if result != nil {
		reply.Header["Content-Type"], reply.Data = []string{"application/json"}, result
	}
	if _, err := h.js.PublishMsg(ctx, reply); err != nil {
		return err
	}
	return m.Ack()
}

// transaction is the local transaction of one command.
func (h *handmade) transaction(ctx context.Context, get func(string) string, hash []byte) (outcome, code, reason string, result []byte, err error) {
	tx, err := h.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return outcome, code, reason, nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	operation := []any{get("Saga-Tenant"), get("Saga-Transaction"), get("Saga-Step"), get("Saga-Phase"), hash, get("Saga-Revision")}
	var verdict string
	err = tx.QueryRow(ctx, `
		SELECT verdict, coalesce(outcome, ''), coalesce(code, ''), coalesce(reason, ''), result
		  FROM saga.barrier_enter($1, $2::text::uuid, $3, $4, $7, $8, $5, $6::text::integer, nullif($9, '')::timestamptz)`,
		append(operation, get("Saga-Step-Kind"), get("Saga-Verb"), get("Saga-Deadline"))...).Scan(&verdict, &outcome, &code, &reason, &result)
	if err != nil {
		return outcome, code, reason, nil, err
	}
	if verdict == "run" {
		outcome = "done"
		work := map[string]string{
			"try":     `UPDATE rooms SET state = 'reserved' WHERE id = 7 AND state = 'free'`,
			"confirm": `UPDATE rooms SET state = 'booked' WHERE id = 7`,
			"cancel":  `UPDATE rooms SET state = 'free' WHERE id = 7`,
		}[get("Saga-Phase")]
		if _, err := tx.Exec(ctx, `SAVEPOINT handler`); err != nil {
			return outcome, code, reason, nil, err
		}
		tag, err := tx.Exec(ctx, work)
		if err != nil {
			return outcome, code, reason, nil, err
		}
		switch {
		case tag.RowsAffected() == 0:
			outcome, code, reason = "refused", "taken", "the room is not free"
			if _, err := tx.Exec(ctx, `ROLLBACK TO SAVEPOINT handler`); err != nil {
				return outcome, code, reason, nil, err
			}
		case get("Saga-Phase") == "try":
			result = []byte(`{"door":12}`)
		}
		if _, err := tx.Exec(ctx, `SELECT saga.barrier_leave($1, $2::text::uuid, $3, $4, $5, $6::text::integer, $7, nullif($8, ''), nullif($9, ''), $10)`,
			append(operation, outcome, code, reason, result)...); err != nil {
			return outcome, code, reason, nil, err
		}
	}
	return outcome, code, reason, result, tx.Commit(ctx)
}
