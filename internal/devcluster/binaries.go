package devcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// EnvBinDir names the environment variable with the directory that holds the
// PostgreSQL server programs (postgres, initdb). When set, no other place is tried.
const EnvBinDir = "SAGACITY_PG_BIN"

// MajorMin is the oldest PostgreSQL major version that a cluster runs on.
const MajorMin = 14

// PostgresMissingError says that no usable PostgreSQL server was found.
type PostgresMissingError struct {
	// Looked lists the places that were tried, and why each did not serve.
	Looked []string
	// Major is the major version that an existing data directory needs, 0 for any.
	Major int
	// Install is the command that installs PostgreSQL on this machine.
	Install string
}

// Error names the places tried and the command that installs PostgreSQL.
func (e *PostgresMissingError) Error() string {
	want := fmt.Sprintf("PostgreSQL server %d or newer", MajorMin)
	if e.Major != 0 {
		want = fmt.Sprintf("PostgreSQL server %d, which wrote the data directory,", e.Major)
	}
	return fmt.Sprintf("devcluster: %s not found (looked in %s); install it with: %s; or set %s to the directory "+
		"of postgres and initdb", want, strings.Join(e.Looked, ", "), e.Install, EnvBinDir)
}

// binaries is one installation of the PostgreSQL server.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// hasLibrary tells whether the installation ships a loadable module.
func (b binaries) hasLibrary(name string) bool {
	program, err := filepath.EvalSymlinks(b.path("postgres"))
	if err != nil {
		return false
	}
	bin := filepath.Dir(program)
	for _, lib := range []string{"../lib", "../lib/postgresql", "../lib/pgsql", "../lib64/pgsql"} {
		for _, ext := range []string{".so", ".dylib"} {
			if _, err := os.Stat(filepath.Join(bin, lib, name+ext)); err == nil {
				return true
			}
		}
	}
	return false
}

// findBinaries returns the first usable installation: the one of EnvBinDir, else
// PATH, Debian, Red Hat and Homebrew directories, newest version first. major 0
// takes any version from MajorMin on; dataDir is what a given major is needed for.
func findBinaries(ctx context.Context, major int, dataDir string) (binaries, error) {
	dirs, looked := candidateDirs()
	for _, dir := range dirs {
		got, err := serverMajor(ctx, dir)
		switch {
		case err != nil:
			looked = append(looked, fmt.Sprintf("%s: %v", dir, err))
		case major != 0 && got != major, got < MajorMin:
			looked = append(looked, fmt.Sprintf("%s: is version %d", dir, got))
		default:
			return binaries{dir: dir, major: got}, nil
		}
	}
	missing := &PostgresMissingError{Looked: looked, Major: major, Install: installCommand(major)}
	if major != 0 {
		return binaries{}, fmt.Errorf("devcluster: open data directory %s: %w", dataDir, missing)
	}
	return binaries{}, missing
}

// candidateDirs lists directories that hold postgres and initdb, best first, and
// the places that held none.
func candidateDirs() (dirs, looked []string) {
	if dir := os.Getenv(EnvBinDir); dir != "" {
		return []string{dir}, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil && filepath.IsAbs(path) {
		dirs = append(dirs, filepath.Dir(path))
	} else {
		looked = append(looked, "PATH")
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // fails on a bad pattern only
		if len(found) == 0 {
			looked = append(looked, pattern)
		}
		slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(pathMajor(b), pathMajor(a)) })
		dirs = append(dirs, found...)
	}
	return dirs, looked
}

var pathNumber = regexp.MustCompile(`[0-9]+`)

// pathMajor returns the version in an installation's path, 0 when there is none.
func pathMajor(path string) int {
	n, _ := strconv.Atoi(pathNumber.FindString(path))
	return n
}

var versionOutput = regexp.MustCompile(`\) ([0-9]+)`)

// serverMajor asks the server in dir for its major version.
func serverMajor(ctx context.Context, dir string) (int, error) {
	for _, program := range []string{"postgres", "initdb"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return 0, fmt.Errorf("has no %s", program)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("run postgres --version: %w", err)
	}
	match := versionOutput.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("postgres --version says %q", strings.TrimSpace(string(out)))
	}
	return strconv.Atoi(string(match[1]))
}

// dataDirMajor returns the major version that wrote a data directory, 0 when there
// is none yet.
func dataDirMajor(dataDir string) (int, error) {
	path := filepath.Join(dataDir, "PG_VERSION")
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("devcluster: read the version of the data directory: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("devcluster: %s is not a version: %w; the data directory is damaged: restore or remove it", path, err)
	}
	return major, nil
}

// installCommand returns the one command that installs PostgreSQL here.
func installCommand(major int) string {
	osRelease, _ := os.ReadFile("/etc/os-release") // missing: the general advice
	return installCommandFor(runtime.GOOS, string(osRelease), os.Geteuid() == 0, major)
}

// installCommandFor is installCommand for any machine.
func installCommandFor(goos, osRelease string, root bool, major int) string {
	if goos == "darwin" {
		return fmt.Sprintf("brew install postgresql@%d", cmp.Or(major, 17))
	}
	var ids string
	for line := range strings.Lines(osRelease) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key == "ID" || key == "ID_LIKE" {
			ids += " " + strings.Trim(value, `"'`)
		}
	}
	sudo := "sudo "
	if root {
		sudo = ""
	}
	suffix := ""
	if major != 0 {
		suffix = strconv.Itoa(major)
	}
	for _, id := range strings.Fields(ids) {
		switch id {
		case "debian", "ubuntu":
			if suffix != "" {
				suffix = "-" + suffix
			}
			return sudo + "apt-get install -y postgresql" + suffix
		case "fedora", "rhel", "centos":
			return sudo + "dnf install -y postgresql" + suffix + "-server postgresql" + suffix + "-contrib"
		case "alpine":
			return sudo + "apk add postgresql" + suffix + " postgresql" + suffix + "-contrib"
		case "arch":
			return sudo + "pacman -S --noconfirm postgresql"
		case "suse", "opensuse":
			return sudo + "zypper install -y postgresql" + suffix + "-server"
		}
	}
	return "your package manager's PostgreSQL server package"
}
