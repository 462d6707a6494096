package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "withdraw.json")
	if err := os.WriteFile(file, withdraw.JSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.run("definition", "list", "-o", "json").want(t, exitOK); r.stdout != "[]\n" {
		t.Errorf("the list of none is %s", r.stdout)
	}
	w.run("definition", "register").want(t, exitUsage, "needs the file of one definition")
	w.run("definition", "register", file+"x").want(t, exitFailed, "read the definition")
	for range 2 {
		w.run("definition", "register", file).want(t, exitOK)
	}
	other := command(t, strings.NewReader(strings.Replace(string(withdraw.JSON()), "take", "give", 1)), "definition", "register", "-", "--server", w.url)
	other.want(t, exitFailed, "definition_taken, HTTP 409")
	command(t, strings.NewReader(""), "definition", "register", "-", "--server", w.url).want(t, exitFailed, "is empty")
	equal(t, "definition list", w.run("definition", "list", "--name", "withdraw").want(t, exitOK).stdout,
		`NAME      VERSION  STATE   REGISTERED
withdraw  1        active  <time------------------>
`)
	w.run("definition", "list", "--name", "a b").want(t, exitUsage, "--name")
	for _, name := range []string{"withdraw", "withdraw@1"} {
		if r := w.run("definition", "show", name).want(t, exitOK); !strings.Contains(r.stdout, `"participant":"bank-a"`) {
			t.Errorf("it shows %s", r.stdout)
		}
	}
	w.run("definition", "show", "withdraw@2").want(t, exitFailed, "not_found")
	w.run("definition", "show", "other").want(t, exitFailed, "no definition other is registered")
	w.run("definition", "show", "withdraw@x").want(t, exitUsage, "withdraw@x")
	w.run("definition", "show").want(t, exitUsage, "needs the name of one definition")

	submission := filepath.Join(t.TempDir(), "submission.json")
	if err := os.WriteFile(submission, []byte(`{"definition":"withdraw","input":{"account":"alice","cents":5}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run("tx", "start", "-f", submission, "--wait=30s").want(t, exitOK)

	w.run("definition", "drain", "withdraw", "--reason", "x").want(t, exitUsage, "which version")
	w.run("definition", "drain", "withdraw@1").want(t, exitUsage, "no reason")
	w.run("definition", "drain", "withdraw@1", "--reason", "x").want(t, exitUsage, "there is no terminal to ask on")
	w.run("definition", "drain", "withdraw@2", "--reason", "x", "--yes").want(t, exitFailed, "not_found")
	drained := w.run("definition", "drain", "withdraw@1", "--reason", "replaced", "--yes", "-o", "json").want(t, exitOK)
	if got := memberOf(t, drained.stdout, "state"); got != "draining" {
		t.Errorf("it is %s", got)
	}
	w.run("tx", "start", "-f", submission).want(t, exitFailed, "definition_draining, HTTP 409")
}
