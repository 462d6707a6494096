package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestDoctor(t *testing.T) {
	const secret = "hunter2"
	dsn := testdb.NewDSN(t, coordinatorSchema)
	bank := testdb.NewDSN(t, bankSchema)
	t.Setenv("DATABASE_URL", dsn)
	t.Setenv("SAGACITY_PARTICIPANT_BANK_A_URL", bank)

	r := command(t, nil, "doctor", "--participant", "bank-a").want(t, exitOK)
	for _, says := range []string{"CHECK", "committed-not-done", "I-2", "barrier-cancelled", "bank-held"} {
		if !strings.Contains(r.stdout, says) {
			t.Errorf("it does not say %s:\n%s", says, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "problems") || strings.Contains(r.stdout, "skipped") || r.stderr != "" {
		t.Errorf("healthy databases:\n%s%s", r.stdout, r.stderr)
	}
	if r := command(t, nil, "doctor", "-o", "json").want(t, exitOK); memberOf(t, r.stdout, "transactions") != "0" || !strings.Contains(r.stdout, "no participant was given") {
		t.Errorf("got %s", r.stdout)
	}

	file := filepath.Join(t.TempDir(), "urls")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# our banks\n\nbank-a = " + bank + "\nbank-b=" + bank + "\n")
	if r := command(t, nil, "doctor", "--participant-urls", file, "--since", "24h", "-o", "json").want(t, exitOK); !strings.Contains(r.stdout, `"bank-b"`) {
		t.Errorf("got %s", r.stdout)
	}
	write("bank-a: postgres://user:" + secret + "@127.0.0.1/x\n")
	for _, c := range []struct{ args, says string }{
		{"doctor --participant bank-b", "SAGACITY_PARTICIPANT_BANK_B_URL"},
		{"doctor --participant a.b", "--participant"},
		{"doctor --participant-urls " + file, "line 1"},
		{"doctor --participant-urls " + file + ".none", "no such file"},
		{"doctor --since -1h", "--since"},
		{"doctor -o xml", "use one of table, json, yaml"},
		{"doctor extra", "coordinator doctor --help"},
	} {
		if r := command(t, nil, strings.Fields(c.args)...).want(t, exitUsage, c.says); strings.Contains(r.stderr, secret) {
			t.Errorf("%s shows a password: %s", c.args, r.stderr)
		}
	}
	t.Setenv("SAGACITY_PARTICIPANT_BANK_A_URL", "postgres://user:"+secret+"@127.0.0.1:1/x?connect_timeout=1")
	if r := command(t, nil, "doctor", "--participant", "bank-a").want(t, exitFailed, "participant bank-a"); strings.Contains(r.stderr, secret) {
		t.Errorf("it shows a password: %s", r.stderr)
	}
	t.Setenv("DATABASE_URL", bank)
	command(t, nil, "doctor").want(t, exitFailed, "has it been migrated")
	t.Setenv("DATABASE_URL", "")
	command(t, nil, "doctor").want(t, exitUsage, "DATABASE_URL")
}

// A problem is an exit code of its own, and its example names what to look at.
func TestDoctorFindsSomething(t *testing.T) {
	dsn := testdb.NewDSN(t, coordinatorSchema)
	t.Setenv("DATABASE_URL", dsn)
	pool, err := (&doctorPools{}).open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `INSERT INTO submissions VALUES ($1, '', '')`, someID); err != nil {
		t.Fatal(err)
	}
	r := command(t, nil, "doctor").want(t, exitFailed, "1 of ", "checks found something that must not be")
	if !strings.Contains(r.stdout, "submission-alone") || !strings.Contains(r.stdout, someID+"  a submission has no transaction") {
		t.Errorf("got\n%s", r.stdout)
	}
}
