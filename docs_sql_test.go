package sagacity_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// statement is one SQL statement of a block, with the rows that the lines behind --> say.
type statement struct {
	sql  string
	want []string
}

func statements(text string) []statement {
	var all []statement
	var sql strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if row, ok := strings.CutPrefix(line, "--> "); ok {
			last := &all[len(all)-1]
			last.want = append(last.want, row)
			continue
		}
		sql.WriteString(line + "\n")
		if strings.HasSuffix(line, ";") {
			all = append(all, statement{sql: strings.TrimSpace(sql.String())})
			sql.Reset()
		}
	}
	return all
}

// rows runs a statement as psql does and returns its rows as text.
func rows(t *testing.T, conn *pgxpool.Conn, sql string) ([]string, error) {
	t.Helper()
	results, err := conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
	var lines []string
	for _, r := range results {
		for _, row := range r.Rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = string(cell)
			}
			lines = append(lines, strings.Join(cells, " | "))
		}
	}
	return lines, err
}

// The session on the page for participants in other languages comes out as it says.
func TestBarrierSession(t *testing.T) {
	t.Parallel()
	conn := acquire(t, barrierDatabase(t))
	checked := 0
	for _, f := range readPage(t, "docs/participants.md").fences {
		if f.lang != "sql" {
			continue
		}
		for _, s := range statements(f.text) {
			got, err := rows(t, conn, s.sql)
			if err != nil {
				t.Fatalf("%s: %s\n%v", f.at, s.sql, err)
			}
			if s.want != nil {
				checked++
				if strings.Join(got, "\n") != strings.Join(s.want, "\n") {
					t.Errorf("%s: %s\ngot  %q\nwant %q", f.at, s.sql, got, s.want)
				}
			}
		}
		if status := conn.Conn().PgConn().TxStatus(); status != 'I' {
			t.Errorf("%s leaves a transaction open", f.at)
		}
	}
	if checked < 8 {
		t.Errorf("only %d results were compared", checked)
	}
	got, err := rows(t, conn, `SELECT id, state FROM rooms ORDER BY id; SELECT state FROM saga.barrier ORDER BY transaction_id`)
	if want := "7 | booked,8 | taken,confirmed,refused,null_cancelled"; err != nil || strings.Join(got, ",") != want {
		t.Errorf("got %q, %v; want %s", got, err, want)
	}
}

func barrierDatabase(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := testdb.New(t, testdb.Template{})
	if err := participant.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return pool
}

func acquire(t *testing.T, pool *pgxpool.Pool) *pgxpool.Conn {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	return conn
}

// The signatures of the SQL functions, and the columns of their verdict, are those of the database.
func TestBarrierSignatures(t *testing.T) {
	t.Parallel()
	conn := acquire(t, barrierDatabase(t))
	p := readPage(t, "docs/participants.md")
	got, err := rows(t, conn, `
		SELECT 'saga.' || p.proname || '(' || string_agg(a.name || ' ' || replace(format_type(a.type, NULL), 'timestamp with time zone', 'timestamptz'), ', ' ORDER BY a.n) || ')'
		  FROM pg_proc p, unnest(p.proargnames, p.proargtypes::oid[]) WITH ORDINALITY AS a (name, type, n)
		 WHERE p.pronamespace = 'saga'::regnamespace AND p.proname IN ('barrier_enter', 'barrier_leave', 'barrier_inquire')
		 GROUP BY p.proname
		 ORDER BY array_position(ARRAY['barrier_enter', 'barrier_leave', 'barrier_inquire'], p.proname::text)`)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range p.fences {
		if f.marker == "signatures" {
			found = true
			if want := strings.TrimSpace(strings.ReplaceAll(f.text, "\n    ", " ")); strings.Join(got, "\n") != want {
				t.Errorf("%s has\n%s\nthe database\n%s", f.at, want, strings.Join(got, "\n"))
			}
		}
	}
	if !found {
		t.Error("the page has no signatures")
	}
	columns, err := rows(t, conn, `SELECT attname FROM pg_attribute WHERE attrelid = 'saga.barrier_verdict'::regclass AND attnum > 0`)
	if err != nil {
		t.Fatal(err)
	}
	listed := ""
	for _, row := range p.tableRows() {
		listed += row[0]
	}
	for _, column := range columns {
		if !strings.Contains(listed, "`"+column+"`") && column != "lease_token" { // of external effects
			t.Errorf("docs/participants.md does not explain the column %s of the verdict", column)
		}
	}
}

// exampleID stands on the pages for any transaction.
const exampleID = "0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"

// Every statement for operators runs on a coordinator's database, or a participant's, and those that look for
// trouble find the trouble that this test makes.
func TestOperationsSQL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.makeTrouble()
	looksFor := map[string]int{ // a part of a statement, and how often it found something
		"SELECT status, suspended, count(*)": 0, "WHERE t.suspended AND": 0, "GROUP BY fingerprint": 0, "jsonb_array_elements": 0,
		"FROM attempts\n WHERE ended_at": 0, "kind = 'message'": 0, "FROM operations": 0, "FROM requests": 0, "FROM audit": 0,
		"FROM incidents": 0, "FROM saga.barrier\n WHERE transaction_id": 0, "saga.barrier_inquire": 0, "definition_name = 'transfer'": 0,
	}
	coordinatorConn, bankConn := acquire(t, w.pool), acquire(t, w.bank)
	ran := 0
	for _, f := range slices.Concat(readPage(t, "docs/operations.md").fences, readPage(t, "docs/security.md").fences) {
		if f.lang != "sql" {
			continue
		}
		conn := coordinatorConn
		if f.marker == "participant" {
			conn = bankConn
		}
		for _, s := range statements(f.text) {
			ran++
			got, err := rows(t, conn, strings.ReplaceAll(s.sql, exampleID, id.String()))
			if err != nil {
				t.Errorf("%s: %s\n%v", f.at, s.sql, err)
			}
			for part := range looksFor {
				if strings.Contains(s.sql, part) {
					looksFor[part] += len(got)
				}
			}
		}
	}
	for part, n := range looksFor {
		if n == 0 {
			t.Errorf("the statement with %q found nothing, or is not on the page any more", part)
		}
	}
	if ran < 15 {
		t.Errorf("only %d statements ran", ran)
	}
}

// world is a coordinator and a bank.
type world struct {
	t           *testing.T
	ctx         context.Context
	prefix      string
	pool, bank  *pgxpool.Pool
	bus         *bus.Bus
	coordinator *coordinator.Coordinator
	caller      coordinator.Caller
}

var quiet = slog.New(slog.DiscardHandler)

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, prefix: testdb.Prefix(t), caller: coordinator.Caller{Tenant: "default", Client: "docs"}}
	w.pool = testdb.New(t, testdb.Template{Name: "coordinator", Migrate: migrateCoordinator})
	w.bank = testdb.New(t, testdb.Template{})
	if err := bank.Migrate(ctx, w.bank); err != nil {
		t.Fatal(err)
	}
	if err := bank.Seed(ctx, w.bank, 10_000, "alice"); err != nil {
		t.Fatal(err)
	}
	nc := testdb.NATS(t)
	var err error
	if w.bus, err = bus.New(nc, bus.Config{Prefix: w.prefix, Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.bus.Close)
	relay, err := outbox.NewRelay(outbox.Config{Pool: w.pool, Publisher: w.bus, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if w.coordinator, err = coordinator.New(coordinator.Config{Pool: w.pool, Bus: w.bus, Relay: relay, Log: quiet, Lanes: 2}); err != nil {
		t.Fatal(err)
	}
	p, err := bank.NewParticipant("bank", w.bank, nc, func(c *participant.Config) { c.Prefix, c.Logger = w.prefix, quiet })
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{relay.Run, w.coordinator.Run, p.Run} {
		running.Go(func() {
			if err := run(life); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { end(); running.Wait() })
	return w
}

func migrateCoordinator(ctx context.Context, dsn string) error {
	_, err := schema.Up(ctx, dsn)
	return err
}

// makeTrouble makes one of everything that an operator looks for, and returns a transaction that waits for a
// person.
func (w *world) makeTrouble() saga.ID {
	w.t.Helper()
	if err := bank.Switch(w.ctx, w.bank, "bug", true); err != nil {
		w.t.Fatal(err)
	}
	move := bank.Move{Account: "alice", Cents: 1}
	buggy := move
	buggy.Wish.PanicWhile = "bug"
	id := w.submit("order-1001", saga.Define("transfer").
		Saga("take", "bank", bank.ActionWithdraw).
		Saga("give", "bank", bank.ActionDeposit, saga.Attempts(1)).MustBuild(), map[string]any{"take": move, "give": buggy})
	w.submit("", saga.Define("lonely").Saga("take", "nobody", "act", saga.AttemptTimeout(20*time.Millisecond)).MustBuild(), nil)

	w.until("a dead letter", func() bool { return len(w.deadLetters()) == 1 })
	letter := w.deadLetters()[0]
	if err := w.coordinator.Admin().Replay(w.ctx, coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, Reason: "again"}); err != nil {
		w.t.Fatal(err)
	}
	w.until("the dead letter is open again", func() bool {
		letters := w.deadLetters()
		return len(letters) == 1 && letters[0].BuriedCount == 2
	})
	w.publish(bus.Message{Subject: w.prefix + ".reply.bank.3", Data: []byte("not a reply")})
	orphan, err := wire.EncodeReply(saga.Reply{
		Verb: saga.VerbExecute, Tenant: "default", Transaction: letter.TransactionID, Step: "none", Phase: saga.PhaseTry,
		Participant: "bank", Attempt: 1, Revision: 1, ContentSHA256: [32]byte{1}, Outcome: saga.OutcomeDone,
	}, w.prefix+".reply.bank.3")
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(orphan)
	for what, sql := range map[string]string{
		"an attempt without an answer": `SELECT count(*) FROM attempts WHERE outcome = 'unknown'`,
		"an unreadable message":        `SELECT count(*) FROM dead_letters WHERE kind = 'message'`,
		"an incident":                  `SELECT count(*) FROM incidents`,
	} {
		w.until(what, func() (ok bool) {
			var n int
			if err := w.pool.QueryRow(w.ctx, sql).Scan(&n); err != nil {
				w.t.Fatal(err)
			}
			return n > 0
		})
	}
	return id
}

func (w *world) submit(requestID string, def *saga.Definition, inputs map[string]any) saga.ID {
	w.t.Helper()
	members := map[string]any{"definition": json.RawMessage(def.JSON())}
	if inputs != nil {
		members["inputs"] = inputs
	}
	body, err := json.Marshal(members)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.coordinator.Submit(w.ctx, coordinator.SubmitParams{Caller: w.caller, RequestID: requestID, Body: body})
	if err != nil {
		w.t.Fatal(err)
	}
	return s.ID
}

func (w *world) publish(m bus.Message) {
	w.t.Helper()
	acknowledged := make(chan error, 1)
	w.bus.Publish(w.ctx, []bus.Message{m}, func(_ int, err error) { acknowledged <- err })
	if err := <-acknowledged; err != nil {
		w.t.Fatal(err)
	}
}

// until waits for what nothing announces.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-w.ctx.Done():
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (w *world) deadLetters() []dlq.DeadLetter {
	w.t.Helper()
	letters, err := w.coordinator.Admin().DeadLetters(w.ctx, dlq.Filter{Status: saga.DeadLetterOpen, Cause: saga.DeadLetterPanic})
	if err != nil {
		w.t.Fatal(err)
	}
	return letters
}
