package devcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

const (
	superuser = "sagacity"
	// initSuffix marks a data directory whose creation has not finished.
	initSuffix = ".init"
)

// initDataDir makes the data directory unless it exists: complete or not at all.
func (p *Postgres) initDataDir(ctx context.Context) (err error) {
	if _, err := os.Stat(filepath.Join(p.dataDir, "PG_VERSION")); err == nil {
		return nil
	}
	unfinished := p.dataDir + initSuffix
	passwordFile := filepath.Join(p.socketDir, "password")
	defer func() {
		err = errors.Join(err, os.RemoveAll(passwordFile))
		if err != nil {
			err = fmt.Errorf("devcluster: create the PostgreSQL data directory %s: %w",
				p.dataDir, errors.Join(err, os.RemoveAll(unfinished)))
		}
	}()
	if err := os.RemoveAll(unfinished); err != nil { // a killed process left it
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := p.ident.chown(unfinished); err != nil {
		return err
	}
	if err := os.WriteFile(passwordFile, []byte(p.password), 0o600); err != nil {
		return err
	}
	if err := p.ident.chown(passwordFile); err != nil {
		return err
	}
	if err := p.runInitdb(ctx, unfinished, passwordFile); err != nil {
		return err
	}
	// The file exists and keeps its owner. It opens the socket alone: no TCP, no replication.
	access := []byte("# TYPE DATABASE USER METHOD\nlocal all all scram-sha-256\n")
	if err := os.WriteFile(filepath.Join(unfinished, "pg_hba.conf"), access, 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, p.dataDir)
}

// runInitdb runs initdb on an empty directory.
func (p *Postgres) runInitdb(ctx context.Context, dir, passwordFile string) error {
	output, err := os.CreateTemp(filepath.Dir(p.logPath), "initdb-*.log")
	if err != nil {
		return err
	}
	defer func() {
		_ = output.Close()
		_ = os.Remove(output.Name())
	}()
	args := []string{
		"--username=" + superuser, "--pwfile=" + passwordFile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C",
	}
	if !p.durable {
		args = append(args, "--no-sync")
	}
	cmd, release, err := p.command(ctx, "initdb", dir, args...)
	if err != nil {
		return err
	}
	defer release()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // its children too
	cmd.WaitDelay = crashTimeout
	proc, err := startProcess(cmd, func(*process) {})
	if err != nil {
		return err
	}
	<-proc.done
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if proc.err != nil {
		return fmt.Errorf("%s: %w; it says:\n%s", cmd.Path, proc.err, tail(output.Name(), 0))
	}
	return nil
}

// command prepares a PostgreSQL program that works on a data directory and ends
// with ctx. release is called once the program has been started or has failed to.
func (p *Postgres) command(
	ctx context.Context, program, dataDir string, args ...string,
) (cmd *exec.Cmd, release func(), err error) {
	cmd = exec.CommandContext(ctx, p.bin.path(program))
	release = func() {}
	if p.ident != nil {
		// Its user need not be able to reach the directory by path (/root is closed
		// to all others): hand the open directory over as file descriptor 3.
		dir, err := os.Open(dataDir)
		if err != nil {
			return nil, nil, err
		}
		release = func() { _ = dir.Close() }
		cmd.ExtraFiles = []*os.File{dir}
		dataDir = "/proc/self/fd/3"
	}
	cmd.Args = append(cmd.Args, append([]string{"-D", dataDir}, args...)...)
	cmd.Dir = "/"
	// Nothing of ours leaks into the child, nor do PGDATA, PGPORT and locales.
	cmd.Env = []string{"LC_ALL=C", "PATH=" + p.bin.dir + ":/usr/local/bin:/usr/bin:/bin"}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = childAttr(p.ident)
	return cmd, release, nil
}

// tail returns the last lines of a log file from an offset on.
func tail(path string, offset int64) string {
	const bytesMax, linesMax = 4096, 15
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	offset = max(offset, info.Size()-bytesMax)
	raw := make([]byte, max(0, info.Size()-offset))
	n, _ := f.ReadAt(raw, offset) // short when the file shrank
	lines := bytes.Split(bytes.TrimSpace(raw[:n]), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-linesMax):], []byte("\n")))
}
