package migrate_test

import (
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/sagacity-tx/sagacity/internal/migrate"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func sqlFile(up, down string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("-- +goose Up\n" + up + ";\n-- +goose Down\n" + down + ";\n")}
}

var files = fstest.MapFS{
	"00001_a.sql": sqlFile("CREATE TABLE a ()", "DROP TABLE a"),
	"00002_b.sql": sqlFile("CREATE TABLE b ()", "DROP TABLE b"),
}

func TestUpAndDown(t *testing.T) {
	dsn, ctx := testdb.NewDSN(t, testdb.Template{}), t.Context()
	want := func(current int64) {
		t.Helper()
		s, err := migrate.Get(ctx, dsn, files, "owner")
		if err != nil || s.Current != current || s.Target != 2 || s.Pending() != (current < 2) || s.Newer() {
			t.Errorf("status %+v, %v; want version %d", s, err, current)
		}
	}
	want(0)
	if applied, err := migrate.Up(ctx, dsn, files, "owner"); err != nil || !slices.Equal(applied, []int64{1, 2}) {
		t.Fatalf("applied %v, %v", applied, err)
	}
	if applied, err := migrate.Up(ctx, dsn, files, "owner"); err != nil || len(applied) != 0 {
		t.Fatalf("again: applied %v, %v", applied, err)
	}
	want(2)
	other := fstest.MapFS{"00001_c.sql": sqlFile("CREATE TABLE c ()", "DROP TABLE c")}
	if applied, err := migrate.Up(ctx, dsn, other, "other"); err != nil || !slices.Equal(applied, []int64{1}) {
		t.Fatalf("another owner: applied %v, %v", applied, err)
	}
	if undone, err := migrate.Down(ctx, dsn, files, "owner", 1); err != nil || !slices.Equal(undone, []int64{2}) {
		t.Fatalf("undone %v, %v", undone, err)
	}
	want(1)
}

func TestProcessesMigrateTogether(t *testing.T) {
	dsn := testdb.NewDSN(t, testdb.Template{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []int64
	for range 4 {
		wg.Go(func() {
			applied, err := migrate.Up(t.Context(), dsn, files, "owner")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			all = append(all, applied...)
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(all)
	if !slices.Equal(all, []int64{1, 2}) {
		t.Errorf("applied %v", all)
	}
}

func TestFailures(t *testing.T) {
	dsn, ctx := testdb.NewDSN(t, testdb.Template{}), t.Context()
	broken := fstest.MapFS{
		"00001_a.sql": sqlFile("CREATE TABLE a ()", "DROP TABLE a"),
		"00002_b.sql": sqlFile("CREATE TABLE b (; )", "DROP TABLE b"),
	}
	if _, err := migrate.Up(ctx, dsn, broken, "owner"); err == nil {
		t.Error("a broken migration was applied")
	}
	if s, err := migrate.Get(ctx, dsn, broken, "owner"); err != nil || s.Current != 1 || !s.Pending() {
		t.Errorf("status %+v, %v", s, err)
	}
	if _, err := migrate.Up(ctx, dsn, files, "owner"); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	for name, owner := range map[string]string{"empty": "", "injection": `x"; DROP TABLE a; --`} {
		if _, err := migrate.Up(ctx, dsn, files, owner); err == nil {
			t.Errorf("%s owner was accepted", name)
		}
	}
}
