package pgfault

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

var update = flag.Bool("update", false, "rewrite the golden file; read the difference line by line")

const sqlstates = "testdata/sqlstates.golden"

// T4: every code of PostgreSQL's appendix A (14 to 18) has its class, as an ERROR before and after a commit was
// sent. The golden file names them all; a code that is added to it is classified with it, or the test fails.
func TestSQLStates(t *testing.T) {
	golden, err := os.ReadFile(sqlstates)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	named := map[string]bool{}
	for line := range strings.Lines(string(golden)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			got.WriteString(line)
			continue
		}
		code, name := f[0], f[1]
		if _, ok := classes[code[:2]]; !ok {
			t.Errorf("the class of %s %s is not classified", code, name)
		}
		named[code], named[code[:2]] = true, true
		err := fmt.Errorf("commit: %w", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code})
		fmt.Fprintf(&got, "%s %-55s %-12s %-14s %s\n", code, name, CauseOf(err), Of(err, fault.Held), Of(err, fault.Sent))
	}
	if *update {
		if err := os.WriteFile(sqlstates, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if got.String() != string(golden) {
		t.Errorf("the classes are not those of %s, but:\n%s", sqlstates, difference(string(golden), got.String()))
	}
	for class := range classes {
		if !named[class] {
			t.Errorf("class %s is not one of PostgreSQL's", class)
		}
	}
	for code, cause := range codes {
		if !named[code] || classes[code[:2]] == cause {
			t.Errorf("%s is not PostgreSQL's, or is as its class", code)
		}
	}
	checkInstalled(t, named)
}

// checkInstalled compares with the list of the servers that are installed here, which may be newer than the file.
func checkInstalled(t *testing.T, named map[string]bool) {
	lists, err := filepath.Glob("/usr/share/p*sql/*/errcodes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 4 && len(f[0]) == 5 && !named[f[0]] {
				t.Errorf("%s has %s %s, which %s has not", list, f[0], f[3], sqlstates)
			}
		}
	}
	t.Logf("compared with %d installed servers", len(lists))
}

func difference(want, got string) string {
	known := map[string]bool{}
	for line := range strings.Lines(want) {
		known[line] = true
	}
	var b strings.Builder
	for line := range strings.Lines(got) {
		if !known[line] {
			b.WriteString(line)
		}
	}
	return b.String()
}

// U3: the end of a session proves nothing about a commit that was sent, whatever its code says; before that, everything
// is rolled back.
func TestEndOfSession(t *testing.T) {
	for code := range classes {
		for _, e := range []*pgconn.PgError{
			{Severity: "FATAL", Code: code + "000"},
			{Severity: "PANIC", Code: code + "000"},
			{Severity: "FATALE", SeverityUnlocalized: "FATAL", Code: code + "000"},
			{SeverityUnlocalized: "PANIC", Code: code + "000"},
		} {
			if Of(e, fault.Sent) != fault.Unknown || Of(e, fault.Held) != fault.Transient || CauseOf(e) != fault.Lost {
				t.Errorf("%v: %s", e, CauseOf(e))
			}
		}
	}
}

func TestOtherCodes(t *testing.T) {
	for _, c := range []struct {
		err  pgconn.PgError
		want fault.Cause
	}{
		{pgconn.PgError{Code: "SG003"}, fault.Rejected}, // a function of ours
		{pgconn.PgError{Code: "ZZ999"}, fault.Rejected},
		{pgconn.PgError{Code: ""}, fault.Unrecognised}, // not a server
		{pgconn.PgError{Code: "5310"}, fault.Unrecognised},
		{pgconn.PgError{Code: "0A000", Routine: "RevalidateCachedQuery"}, fault.Aborted},
		{pgconn.PgError{Code: "0A000", Routine: "transformAExprIn"}, fault.Rejected},
		{pgconn.PgError{Code: "54000", Routine: "GetNewTransactionId"}, fault.Exhausted},
		{pgconn.PgError{Code: "54000", Routine: "GetNewMultiXactId"}, fault.Exhausted},
		{pgconn.PgError{Code: "54000", Routine: "palloc"}, fault.Rejected},
		{pgconn.PgError{Severity: "WARNING", Code: "40P01"}, fault.Busy},
	} {
		if got := CauseOf(&c.err); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.err.Code, c.err.Routine, got, c.want)
		}
	}
}
