package participant_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulesGolden = "testdata/modules.golden"

// The SDK links pgx, nats.go, backoff, the OpenTelemetry API, and what they need. Whoever adds a module adds it
// to every service that joins, so the diff of the golden file needs a reason.
func TestModules(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}} {{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for line := range strings.Lines(string(out)) {
		module, pkg, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if module != "" {
			modules = append(modules, module)
		}
		if strings.HasSuffix(pkg, "/internal/devcluster") || strings.HasSuffix(pkg, "/internal/testdb") || strings.HasSuffix(pkg, "/internal/sabotage") {
			t.Errorf("the SDK links %s", pkg)
		}
	}
	slices.Sort(modules)
	got := strings.Join(slices.Compact(modules), "\n") + "\n"
	golden, err := os.ReadFile(modulesGolden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(golden) {
		t.Errorf("the SDK links other modules than %s says:\n%s", modulesGolden, got)
	}
}
