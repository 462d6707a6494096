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
	t.Setenv("COORDINATOR_DATABASE_URL", dsn) // DATABASE_URL is that of a service then
	command(t, nil, "doctor").want(t, exitOK)
	t.Setenv("COORDINATOR_DATABASE_URL", "")
	t.Setenv("DATABASE_URL", "")
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	command(t, nil, "doctor").want(t, exitUsage, "DATABASE_URL")
}

// Without an address the doctor looks at the databases of a running dev, whose file it reads.
func TestDoctorFindsDev(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{"DATABASE_URL", envCoordinatorDatabase, envParticipant("bank-a"), envParticipant("bank-b")} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	dir, err := devDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	bank := testdb.NewDSN(t, bankSchema)
	text := "export DATABASE_URL='" + bank + "'\nexport COORDINATOR_DATABASE_URL='" + testdb.NewDSN(t, coordinatorSchema) + "'\n"
	for _, name := range devBanks {
		text += "export " + envParticipant(name) + "='" + bank + "'\n"
	}
	if err := os.WriteFile(filepath.Join(dir, addressesFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, nil, "doctor", "-o", "json").want(t, exitOK, `looking at the databases of "coordinator dev"`)
	if !strings.Contains(r.stdout, `"bank-a"`) || !strings.Contains(r.stdout, `"bank-b"`) {
		t.Errorf("it does not look at the banks: %s", r.stdout)
	}
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
