package coordinator_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/saga"
)

// statements returns the constants sql… of Go files, by name.
func statements(t *testing.T, files ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		conf := types.Config{IgnoreFuncBodies: true, Error: func(error) {}} // imports are not resolved: constants need none
		pkg, _ := conf.Check(name, fset, []*ast.File{file}, nil)
		for _, id := range pkg.Scope().Names() {
			if c, ok := pkg.Scope().Lookup(id).(*types.Const); ok && strings.HasPrefix(id, "sql") {
				found[id] = constant.StringVal(c.Val())
			}
		}
	}
	return found
}

// goFiles are those of a directory, tests left out.
func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

func coordinatorStatements(t *testing.T) map[string]string {
	all := statements(t, goFiles(t, ".")...)
	if len(all) < 19 {
		t.Fatalf("found only %d statements", len(all))
	}
	return all
}

func notifyStatements(t *testing.T) map[string]string {
	all := statements(t, goFiles(t, "../notify")...)
	if len(all) < 10 {
		t.Fatalf("found only %d statements", len(all))
	}
	return all
}

func dlqStatements(t *testing.T) map[string]string {
	all := statements(t, goFiles(t, "../dlq")...)
	if len(all) < 8 {
		t.Fatalf("found only %d statements", len(all))
	}
	return all
}

// Every statement is one that the migrated schema knows.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, all := range []map[string]string{coordinatorStatements(t), dlqStatements(t), notifyStatements(t)} {
		for name, sql := range all {
			err := w.pool.AcquireFunc(w.ctx(10*time.Second), func(c *pgxpool.Conn) error {
				_, err := c.Conn().Prepare(t.Context(), "", sql) // unnamed: packages may use the same names
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// pinned are the statements that run in a lane's batch, with its settings.
var pinned = []string{
	"sqlLock", "sqlUpdate", "sqlRearm", "sqlInsertRequests", "sqlInsertTransactions", "sqlInsertSubmissions",
	"sqlCheckForgotten", "sqlFindRequests", "sqlForgetRequests", "sqlRetainRest", "sqlWriteOperations", "sqlInsertAttempts", "sqlInsertIncident", "sqlLoadTransactions", "sqlLoadSubmissions",
	"sqlLoadOperations", "sqlOpen", "sqlClaim", "sqlEnd", "sqlInsertAudit", "sqlLockInquiries", "sqlAnswer", "sqlDispatched", "outbox.sqlInsert",
}

var scanned = regexp.MustCompile(`Seq Scan on (transactions|submissions|operations|attempts|requests|request_hashes|outbox|dead_letters|inquiries|definitions)\w*`)

// everywhere is an access that looks up each id in each partition: dear when there are many weeks of them.
var everywhere = regexp.MustCompile(`Index Cond: \((transaction_)?id = ANY`)

// With finished transactions by the ten thousand no statement reads a table from end to end, whether statistics
// are known or not (C7: the settings are the transaction's own).
func TestPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := coordinatorStatements(t)
	settings := all["sqlSettings"]
	delete(all, "sqlSettings")
	maps.Copy(all, dlqStatements(t))
	for _, name := range []string{"sqlGet", "sqlList", "sqlListAudit", "sqlListGroups"} { // lists for people, of small tables
		delete(all, name)
	}
	for name, sql := range statements(t, "../outbox/sql.go") {
		if name == "sqlInsert" {
			all["outbox.sqlInsert"] = sql
		}
	}
	explain := func(when string, names []string, pinned bool) {
		for _, name := range names {
			if all[name] == "" {
				t.Fatalf("there is no statement %s", name)
			}
			plan := w.explain(name, all[name], settings, pinned)
			if at := scanned.FindString(plan); at != "" && (pinned || w.big(strings.Fields(at)[3])) {
				t.Errorf("%s, %s: %s:\n%s", name, when, at, plan)
			}
			if pinned && everywhere.MatchString(plan) {
				t.Errorf("%s, %s: looks in every partition:\n%s", name, when, plan)
			}
		}
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return slices.Contains(pinned, name) })
	explain("empty", pinned, true)
	w.fill(30_000)
	explain("without statistics", pinned, true)
	if _, err := w.pool.Exec(w.ctx(time.Minute), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	explain("with statistics", pinned, true)
	explain("with statistics", others, false)
}

// explain returns the plan that holds for any parameters.
func (w *world) explain(name, sql, settings string, pinned bool) string {
	w.t.Helper()
	var plan strings.Builder
	err := pgx.BeginFunc(w.ctx(20*time.Second), w.pool, func(tx pgx.Tx) error {
		ctx := context.Background()
		if pinned {
			if _, err := tx.Exec(ctx, settings); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil {
			return err
		}
		id := strings.ReplaceAll(name, ".", "_")
		if _, err := tx.Exec(ctx, `PREPARE `+id+` AS `+sql); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = lower($1)`, id).Scan(&n); err != nil {
			return err
		}
		params := ""
		if n > 0 {
			params = "(NULL" + strings.Repeat(", NULL", n-1) + ")"
		}
		rows, err := tx.Query(ctx, `EXPLAIN EXECUTE `+id+params, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan.WriteString(strings.Join(lines, "\n"))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DEALLOCATE `+id)
		return err
	})
	if err != nil {
		w.t.Errorf("%s: %v", name, err)
	}
	return plan.String()
}

func (w *world) big(table string) bool {
	return w.count(`SELECT pg_relation_size($1::regclass)`, table) > 1<<20
}

// fill adds finished transactions of two operations each, and their requests and submissions.
func (w *world) fill(n int) {
	w.t.Helper()
	_, err := w.pool.Exec(w.ctx(2*time.Minute), fmt.Sprintf(`
		CREATE TEMP TABLE made AS
		SELECT overlay((lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint - i), 12, '0') || '7' || substr(md5(i::text), 1, 19))
		       PLACING '8' FROM 17)::uuid AS id, i FROM generate_series(1, %d) i;
		INSERT INTO transactions (id, version, status, tenant, client, request_id, definition, definition_name, created_at, decided_at, finished_at)
			SELECT id, 4, 'committed', 'acme', 'shop', 'old-' || i, '\x00', 'order', now(), now(), now() FROM made;
		INSERT INTO submissions SELECT id, '\x00', '{}' FROM made;
		INSERT INTO requests (tenant, client, request_id, transaction_id, content_sha256, answer)
			SELECT 'acme', 'shop', 'old-' || i, id, '\x00', '{}' FROM made;
		INSERT INTO operations (transaction_id, step, phase, state, wait, replaying, attempt, counted, counted_to, floor, revision, content_sha256, sent_at)
			SELECT id, step, 'try', 'done', '', false, 1, 0, 0, 0, 1, '\x00', now() FROM made, unnest(ARRAY['s1', 's2']) step;
		INSERT INTO attempts (transaction_id, step, phase, attempt, ended_at, outcome)
			SELECT id, 's1', 'try', 1, now(), 'unknown' FROM made;
		DROP TABLE made`, n))
	if err != nil {
		w.t.Fatal(err)
	}
}

// A week that has rows in a default partition, because the database's clock was wrong for some time, stops neither
// a coordinator's start nor the partitions of other weeks.
func TestPartitionsAfterAClockJump(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.pool.Exec(w.ctx(10*time.Second), `
		INSERT INTO attempts (transaction_id, step, phase, attempt, ended_at, outcome)
		SELECT week_floor(floor(extract(epoch FROM clock_timestamp()) / (7 * 86400))::bigint + 6), 's1', 'try', 1, now(), 'unknown';
		SELECT ensure_partitions(8)`)
	if err != nil {
		t.Fatal(err)
	}
	const partitions = `SELECT count(*) FROM pg_inherits WHERE inhparent = $1::regclass`
	if of, fewer := w.count(partitions, "transactions"), w.count(partitions, "attempts"); of != fewer+1 || fewer < 9 {
		t.Errorf("%d partitions of transactions, %d of attempts", of, fewer)
	}
	c, _ := w.coordinator()
	w.participant("stock", nil)
	if v := w.wait(c, w.submit(c, define(saga.KindSaga, 1), "")); v.Status != saga.StatusCommitted {
		t.Errorf("got %s", v.Status)
	}
}

// The updates of a row's short life stay on its page and touch no index (HOT).
func TestHOTUpdates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, stop := w.coordinator()
	w.participant("stock", nil)
	const n = 150
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if v := w.wait(c, w.submit(c, define(saga.KindTCC, 3), "")); v.Status != saga.StatusCommitted {
				t.Errorf("got %s", v.Status)
			}
		})
	}
	all.Wait()
	stop()
	w.pool.Reset() // sessions report what they counted when they end
	hot := func(table string) (updates, percent int) {
		err := w.pool.QueryRow(w.ctx(10*time.Second), `SELECT sum(n_tup_upd)::int, (100 * sum(n_tup_hot_upd) / GREATEST(sum(n_tup_upd), 1))::int
			FROM pg_stat_user_tables WHERE relname LIKE $1 || '\_w%'`, table).Scan(&updates, &percent)
		if err != nil {
			t.Fatal(err)
		}
		return updates, percent
	}
	w.until("the statistics are complete", func() bool { u, _ := hot("operations"); return u >= 6*n })
	_, operations := hot("operations")
	_, transactions := hot("transactions")
	t.Logf("HOT: %d%% of the updates of operations, %d%% of transactions", operations, transactions)
	if operations < 80 {
		t.Errorf("only %d%% of the updates of operations are HOT", operations)
	}
}
