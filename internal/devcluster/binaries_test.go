package devcluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingPostgres(t *testing.T) {
	t.Setenv(EnvBinDir, t.TempDir())
	_, err := Start(testContext(t), Config{})
	var missing *PostgresMissingError
	if !errors.As(err, &missing) {
		t.Fatalf("got %v, want a PostgresMissingError", err)
	}
	if !strings.Contains(err.Error(), missing.Install) || !strings.Contains(err.Error(), "has no postgres") {
		t.Errorf("the error does not help: %v", err)
	}
}

func TestOldPostgres(t *testing.T) {
	dir := t.TempDir()
	fake := "#!/bin/sh\necho 'postgres (PostgreSQL) 13.4'\n"
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fake), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(EnvBinDir, dir)
	for _, major := range []int{0, 16} {
		var missing *PostgresMissingError
		if _, err := findBinaries(t.Context(), major, "/data"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "is version 13") {
			t.Errorf("major %d: %v", major, err)
		}
	}
}

func TestInstallCommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		goos, release string
		root          bool
		major         int
		want          string
	}{
		{"linux", "ID=debian\n", true, 0, "apt-get install -y postgresql"},
		{"linux", "NAME=x\nID=mint\nID_LIKE=\"ubuntu debian\"\n", false, 0, "sudo apt-get install -y postgresql"},
		{"linux", "ID=debian\n", true, 16, "apt-get install -y postgresql-16"},
		{"linux", "ID=fedora\n", true, 0, "dnf install -y postgresql-server postgresql-contrib"},
		{"linux", "ID=alpine\n", true, 16, "apk add postgresql16 postgresql16-contrib"},
		{"darwin", "", false, 0, "brew install postgresql@17"},
		{"linux", "", true, 0, "your package manager's PostgreSQL server package"},
	} {
		if got := installCommandFor(tc.goos, tc.release, tc.root, tc.major); got != tc.want {
			t.Errorf("%s %q: got %q, want %q", tc.goos, tc.release, got, tc.want)
		}
	}
}

func TestPathMajor(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{
		"/usr/lib/postgresql/15/bin": 15, "/usr/pgsql-9.6/bin": 9, "/opt/homebrew/opt/postgresql@17/bin": 17, "/usr/bin": 0,
	} {
		if got := pathMajor(path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
}
