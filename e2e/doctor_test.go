package e2e

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// doctor lets the program look at all databases: at rest it can look at everything, and nothing may be wrong.
func (w *world) doctor(t *testing.T) {
	t.Helper()
	args, env := []string{"doctor"}, w.env("coordinator")
	for _, name := range bankNames {
		args = append(args, "--participant", name)
		env = append(env, "SAGACITY_PARTICIPANT_"+strings.ToUpper(databaseOf(name))+"_URL="+w.cluster.DSN(databaseOf(name)))
	}
	var report bytes.Buffer
	began := time.Now()
	p := startProcess(t, spec{name: "coordinator doctor", args: args, env: env, stdout: &report})
	if code := p.wait(t, 2*time.Minute); code != 0 {
		t.Errorf("coordinator doctor: exit code %d\n%s\n%s", code, report.String(), p.log.tail())
		return
	}
	t.Logf("coordinator doctor found nothing wrong, after %s", time.Since(began).Round(time.Millisecond))
}
