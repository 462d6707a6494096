package devcluster

import (
	"bytes"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
)

const (
	otherUID  = 54321 // runs nothing, owns nothing
	nobodyUID = 65534 // initdb wants a user with a name
)

func TestStartAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // every test runs as an ordinary user already
	}
	_, rep := runRole(t, roleCycle, "", nobodyUID)
	if rep.Error != "" {
		t.Fatal(rep.Error)
	}
	eventually(t, "the server is gone", func() bool { return gone(rep.Pid) })
	if exists(rep.Runtime) {
		t.Errorf("%s is still there", rep.Runtime)
	}
}

func TestOthersCannotConnect(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Config{})
	for _, password := range []string{"", "wrong"} {
		u, err := url.Parse(c.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(superuser, password)
		conn, err := pgx.Connect(testContext(t), u.String())
		if err == nil {
			_ = conn.Close(testContext(t))
			t.Errorf("password %q is accepted", password)
		}
		var refused *pgconn.PgError
		if password != "" && (!errors.As(err, &refused) || refused.Code != "28P01") {
			t.Errorf("password %q: %v, want invalid_password", password, err)
		}
	}
	access, err := os.ReadFile(filepath.Join(c.Postgres.dataDir, "pg_hba.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(access, []byte("trust")) || bytes.Count(access, []byte("\nlocal")) != 1 || bytes.Contains(access, []byte("\nhost")) {
		t.Errorf("pg_hba.conf is\n%s", access)
	}
	for _, dir := range []string{c.Postgres.dataDir, c.Postgres.socketDir, c.runtime.stateDir()} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", dir, info.Mode())
		}
	}
	natsURL, err := url.Parse(c.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	natsURL.User = nil
	if nc, err := nats.Connect(natsURL.String()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("NATS without password: %v, %v", nc, err)
	}
	if os.Geteuid() == 0 {
		_, rep := runRole(t, roleDial, filepath.Join(c.Postgres.socketDir, socketName), otherUID)
		if !strings.Contains(rep.Error, fs.ErrPermission.Error()) {
			t.Errorf("another user reaches the socket: %q", rep.Error)
		}
	}
}

func TestPasswordIsNotOnACommandLineOrLeftInAFile(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Config{})
	line, err := os.ReadFile(filepath.Join("/proc", itoa(postmasterPid(c)), "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(line, []byte(c.Postgres.password)) {
		t.Error("the password is on the command line")
	}
	if exists(filepath.Join(c.Postgres.socketDir, "password")) {
		t.Error("initdb's password file is still there")
	}
	info, err := os.Stat(filepath.Join(c.runtime.stateDir(), "secrets.json"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("secrets.json has mode %v", info.Mode())
	}
}

func TestServerDoesNotRunAsRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // nothing runs as root here
	}
	c := startCluster(t, Config{Dir: t.TempDir()}) // a directory closed to all but root
	status, err := os.ReadFile(filepath.Join("/proc", itoa(postmasterPid(c)), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\nCapPrm:\t0000000000000000\n", "\nCapEff:\t0000000000000000\n", "\nGroups:\t \n"} {
		if !bytes.Contains(status, []byte(line)) {
			t.Errorf("status lacks %q:\n%s", line, status)
		}
	}
	if bytes.Contains(status, []byte("\nUid:\t0")) || bytes.Contains(status, []byte("\nGid:\t0")) {
		t.Errorf("the server runs as root:\n%s", status)
	}
}
