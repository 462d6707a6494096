// Package sagacity_test holds what the documentation shows to what the program does.
package sagacity_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// guide are the pages whose every block is checked.
var guide = []string{
	"README.md", "docs/README.md", "docs/definitions.md", "docs/participants.md", "docs/operations.md", "docs/reliability.md",
	"docs/security.md", "docs/faq.md",
}

// TestReadme: the service and the submission that it shows are files that are compiled, tested and run.
func TestReadme(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, f := range readPage(t, "README.md").fences {
		found[f.lang]++
		switch f.lang {
		case "go":
			wantIn(t, f, "examples/hotel/hotel.go")
		case "json":
			wantSame(t, f, "examples/transfer.json")
			wantSubmission(t, f)
		case "text":
			wantScenarios(t, f)
		}
	}
	if found["go"] != 1 || found["json"] != 1 || found["text"] != 1 || found["sh"] < 3 {
		t.Errorf("the README has other blocks than it had: %v", found)
	}
}

func wantIn(t *testing.T, f fence, path string) {
	t.Helper()
	if content := read(t, path); !strings.Contains(content, f.text) {
		t.Errorf("%s is not in %s", f.at, path)
	}
}

func wantSame(t *testing.T, f fence, path string) {
	t.Helper()
	if content := read(t, path); content != f.text {
		t.Errorf("%s differs from %s", f.at, path)
	}
}

func wantSubmission(t *testing.T, f fence) {
	t.Helper()
	if _, err := saga.ParseSubmission([]byte(f.text), saga.ParseDefinition); err != nil {
		t.Errorf("%s: %v", f.at, err)
	}
}

// wantScenarios: what the table of make dev shows are scenarios that there are, in their order, with what they
// expect.
func wantScenarios(t *testing.T, f fence) {
	t.Helper()
	source, rows := read(t, "internal/demo/scenarios.go"), 0
	for line := range strings.SplitSeq(f.text, "\n") {
		name, expected, isRow := strings.Cut(line, " expected ")
		if !isRow {
			continue
		}
		rows++
		name, expected = strings.TrimSpace(name), strings.TrimSpace(expected)
		_, rest, found := strings.Cut(source, strconv.Quote(name))
		if declared, _, _ := strings.Cut(rest, "\n"); !found || !strings.Contains(declared, strconv.Quote(expected)) {
			t.Errorf("%s: %q with %q is no scenario of make dev, or not in its place", f.at, name, expected)
			continue
		}
		source = rest
	}
	if rows < 3 {
		t.Errorf("%s: %d scenarios", f.at, rows)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var (
	makeRE       = regexp.MustCompile("`make ([a-z-]+)")
	makeHelpRE   = regexp.MustCompile(`(?m)^  ([a-z-]+) +\S`)
	usageRE      = regexp.MustCompile(`(?m)^Usage:\n  (.+)$`)
	flagRE       = regexp.MustCompile(`^\s+(?:-\w, )?(--[a-z-]+) `)
	shellWordsRE = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
)

// What the pages tell a reader to type exists: targets of make, commands and their flags.
func TestCommands(t *testing.T) {
	t.Parallel()
	targets := makeTargets(t)
	bin := build(t)
	checkServeFlags(t, bin)
	seen, asked := map[string]int{}, map[string]bool{}
	for _, path := range append(slices.Clone(guide), "CONTRIBUTING.md", "docs/cli.md") {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		p := readPage(t, path)
		for _, m := range makeRE.FindAllStringSubmatch(p.prose, -1) {
			if !slices.Contains(targets, m[1]) {
				t.Errorf("%s: make has no target %s", path, m[1])
			}
		}
		for _, f := range p.fences {
			if f.lang != "sh" {
				continue
			}
			for _, words := range shellCommands(f.text) {
				seen[words[0]]++
				if line := strings.Join(words, " "); !asked[line] {
					asked[line] = true
					checkCommand(t, f, words, targets, bin)
				}
			}
		}
	}
	for _, name := range []string{"make", "coordinator", "go"} {
		if seen[name] == 0 {
			t.Errorf("no command %s was found on any page", name)
		}
	}
}

func makeTargets(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "make", "help").Output()
	if err != nil {
		t.Fatalf("make help: %v", err)
	}
	var targets []string
	for _, m := range makeHelpRE.FindAllStringSubmatch(string(out), -1) {
		targets = append(targets, m[1])
	}
	if !slices.Contains(targets, "dev") {
		t.Fatalf("make help lists %v", targets)
	}
	return targets
}

// build builds the programs and returns the directory that they are in.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/coordinator", "./cmd/participant").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// shellCommands returns the words of each command of a block.
func shellCommands(text string) [][]string {
	var commands [][]string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		line, _, _ = strings.Cut(line, " # ")
		for part := range strings.SplitSeq(line, "&&") {
			words := shellWordsRE.FindAllString(part, -1)
			if pipe := slices.Index(words, "|"); pipe >= 0 {
				words = words[:pipe]
			}
			for len(words) > 0 && strings.Contains(words[0], "=") {
				words = words[1:] // NAME=value before a command
			}
			if len(words) > 0 && !strings.HasPrefix(words[0], "#") {
				commands = append(commands, words)
			}
		}
	}
	return commands
}

func checkCommand(t *testing.T, f fence, words, targets []string, bin string) {
	t.Helper()
	switch {
	case words[0] == "make":
		if len(words) > 1 && !slices.Contains(targets, words[1]) {
			t.Errorf("%s: make has no target %s", f.at, words[1])
		}
	case words[0] == "go" && len(words) > 2 && words[1] == "run" && strings.HasPrefix(words[2], "./cmd/"):
		checkHelp(t, f, bin, strings.TrimPrefix(words[2], "./cmd/"), words[3:])
	case words[0] == "go" && len(words) > 2 && words[1] == "run":
		if _, err := os.Stat(filepath.Join(words[2], "main.go")); err != nil {
			t.Errorf("%s: there is no program %s", f.at, words[2])
		}
	case words[0] == "coordinator" || words[0] == "participant":
		checkHelp(t, f, bin, words[0], words[1:])
	case slices.Contains(guide, f.at[:strings.LastIndex(f.at, ":")]) && !slices.Contains([]string{"git", "cd"}, words[0]):
		t.Errorf("%s: nobody checks the command %s", f.at, words[0])
	}
}

// checkHelp asks the program for help on a command line: flags that it does not have are errors, and a command
// that it does not have shows another usage.
func checkHelp(t *testing.T, f fence, bin, program string, args []string) {
	t.Helper()
	line := program + " " + strings.Join(args, " ")
	var flags []string
	for _, a := range args {
		flags = append(flags, strings.Trim(a, `"'`))
	}
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, program), append(flags, "--help")...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %s: %v\n%s", f.at, line, err, out)
		return
	}
	usage := usageRE.FindSubmatch(out)
	if usage == nil {
		t.Errorf("%s: %s has no usage:\n%s", f.at, line, out)
		return
	}
	command := strings.Fields(string(usage[1]))
	depth := 1
	for depth < len(command) && regexp.MustCompile(`^[a-z]+$`).MatchString(command[depth]) {
		depth++
	}
	words := append([]string{program}, args...)
	if len(words) < depth || !slices.Equal(words[:depth], command[:depth]) {
		t.Errorf("%s: %s is understood as %s", f.at, line, usage[1])
	}
	if len(words) > depth && !strings.HasPrefix(words[depth], "-") && strings.Contains(string(out), "Available Commands:") {
		t.Errorf("%s: %s: there is no command %s", f.at, line, words[depth])
	}
}

// checkServeFlags: the flags of serve are those of the table, with their environment variables and defaults.
func checkServeFlags(t *testing.T, bin string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "coordinator"), "serve", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	help := strings.Split(string(out), "\n")
	var listed []string
	for _, row := range readPage(t, "docs/operations.md").tableRows() {
		flag := strings.Trim(row[0], "`")
		if !strings.HasPrefix(flag, "--") {
			continue
		}
		listed = append(listed, flag)
		at := slices.IndexFunc(help, func(line string) bool { return strings.Contains(line, " "+flag+" ") })
		switch {
		case at < 0:
			t.Errorf("serve has no flag %s", flag)
		case !strings.Contains(help[at], strings.Trim(row[1], "`")):
			t.Errorf("%s: the environment variable is not %s: %s", flag, row[1], help[at])
		case row[2] != "required" && row[2] != "" && !strings.Contains(help[at], row[2]):
			t.Errorf("%s: the default is not %s: %s", flag, row[2], help[at])
		}
	}
	for _, line := range help {
		if m := flagRE.FindStringSubmatch(line); len(m) == 2 && m[1] != "--help" && !slices.Contains(listed, m[1]) {
			t.Errorf("docs/operations.md does not list %s", m[1])
		}
	}
}
