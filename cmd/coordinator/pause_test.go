package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// A participant is paused, seen to be, and resumed: what was held goes.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if r := w.run("pause", "list", "-o", "json").want(t, exitOK); r.stdout != "[]\n" {
		t.Errorf("the list of none is %s", r.stdout)
	}
	equal(t, "pause", w.run("pause", "--participant", "bank-a", "--reason", "new disk", "--yes").want(t, exitOK).stdout,
		`Pause   <id-------------------------------->
Paused  participant bank-a
Since   <time------------------>
By      anonymous
Reason  new disk
`)
	again := w.run("participant", "pause", "bank-a", "--reason", "another", "--yes", "-o", "json").want(t, exitOK, "participant bank-a was paused before")
	if got := memberOf(t, again.stdout, "reason"); got != "new disk" {
		t.Errorf("it was paused before for %q", got)
	}
	w.run("pause", "--action", "bank-a/withdraw", "--reason", "x", "--yes").want(t, exitOK)
	id := w.start(withdraw, map[string]any{"account": "alice", "cents": 5})
	equal(t, "pause list", w.run("pause", "list").want(t, exitOK).stdout,
		`ID                                    PAUSED                                 SINCE                     BY         REASON
<id-------------------------------->  participant bank-a                     <time------------------>  anonymous  new disk
<id-------------------------------->  action withdraw of participant bank-a  <time------------------>  anonymous  x
`)
	equal(t, "participant list", w.run("participant", "list").want(t, exitOK).stdout,
		`NAME    BREAKER  IN FLIGHT  WAITING  DRAIN  PAUSED
bank-a  closed   0          pause 1         yes, action withdraw
`)
	if r := w.run("tx", "explain", id).want(t, exitOK); !strings.Contains(r.stdout, "paused") {
		t.Errorf("it is explained as\n%s", r.stdout)
	}
	w.run("participant", "resume", "bank-b", "--reason", "x", "--yes").want(t, exitFailed, "there is no pause of participant bank-b")
	w.run("resume", "--all", "--reason", "x", "--yes").want(t, exitFailed, "there is no pause of everything")
	w.run("resume", someID, "--reason", "x", "--yes").want(t, exitFailed, "there is no pause of "+someID)
	w.run("participant", "resume", "bank-a", "--reason", "x").want(t, exitUsage, "there is no terminal to ask on")
	if r := w.run("participant", "resume", "bank-a", "--reason", "it is in", "--yes").want(t, exitOK, "participant bank-a is resumed"); r.stdout != "" {
		t.Errorf("it prints %s", r.stdout)
	}
	left := w.run("pause", "list", "-o", "json").want(t, exitOK)
	pause := memberOf(t, strings.Trim(left.stdout, "[]\n "), "id")
	resumed := w.run("resume", pause, "--reason", "done", "--yes", "-o", "json").want(t, exitOK)
	if got := memberOf(t, resumed.stdout, "action"); got != "withdraw" {
		t.Errorf("resumed %s", resumed.stdout)
	}
	w.run("tx", "wait", id, "--for", "30s").want(t, exitOK)
}

// A pause of what nobody has heard of is made, with a warning that names what there is.
func TestPauseOfUnknownNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pause := func(args ...string) result {
		return w.run(append([]string{"pause", "--reason", "x", "--yes"}, args...)...).want(t, exitOK)
	}
	for _, slip := range [][2]string{{"--action", "nobody/nothing"}, {"--participant", "nobody"}, {"--definition", "nothing"}} {
		for _, time := range []string{"the first time", "again"} { // a pause makes no name known
			if r := pause(slip[0], slip[1]); !strings.Contains(r.stderr, "warning: nothing in use is") || !strings.Contains(r.stderr, "; none is known\n") {
				t.Errorf("%s %s %s: %q", slip[0], slip[1], time, r.stderr)
			}
		}
	}
	w.run("tx", "wait", w.start(withdraw, map[string]any{"account": "alice", "cents": 5})).want(t, exitOK)
	for flag, c := range map[string]struct{ slip, known string }{
		"--participant": {"bnak-a", "bank-a"}, "--definition": {"withdarw", "withdraw"}, "--action": {"bank-a/withdarw", "bank-a/withdraw"},
	} {
		if r := pause(flag, c.slip); !strings.Contains(r.stderr, "warning: nothing in use is") || !strings.Contains(r.stderr, c.known) {
			t.Errorf("%s %s: %q, want a warning that names %s", flag, c.slip, r.stderr, c.known)
		}
		if r := pause(flag, c.known); r.stderr != "" {
			t.Errorf("%s %s: %q", flag, c.known, r.stderr)
		}
	}
	if r := pause("--all"); r.stderr != "" {
		t.Errorf("--all: %q", r.stderr)
	}
}

func TestParticipantRows(t *testing.T) {
	t.Parallel()
	list := []client.Participant{
		{
			Name: "bank-a", Breaker: "open", InFlight: 12, Draining: true, Ceiling: 800, Waiting: map[string]int{"breaker": 7, "budget": 70, "ceiling": 7},
			Paused: []client.Pause{{Scope: client.Scope{Scope: client.ScopeAll}}},
		},
		{Name: "bank-b", Breaker: "closed", Ceiling: 500},
	}
	var text strings.Builder
	if err := (output{w: &text, format: formatTable}).data(list, func(t *table) { participantRows(t, list) }); err != nil {
		t.Fatal(err)
	}
	equal(t, "rows", text.String(), `NAME    BREAKER  IN FLIGHT  WAITING                          DRAIN  PAUSED
bank-a  open     12         budget 70, breaker 7, ceiling 7  800/s  everything
bank-b  closed   0
`)
}

// The flags of serve reach the policy; the environment counts where no flag is given.
func TestFlowFlags(t *testing.T) {
	t.Setenv("SAGACITY_RETRY_PERCENT", "20")
	t.Setenv("SAGACITY_RETRY_FLOOR", "30")
	read := func(args ...string) (serverConfig, error) {
		var cfg serverConfig
		cmd := &cobra.Command{}
		addFlowFlags(cmd, &cfg)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		err := readFlowFlags(cmd, &cfg)
		return cfg, err
	}
	got, err := read("--retry-floor", "7", "--drain-ceiling", "900", "--auto-pause", "0")
	want := flow.Policy{
		InFlightMax: flow.DefaultInFlightMax, RetryPercent: 20, RetryFloor: 7, BreakerTimeouts: flow.DefaultBreakerTimeouts, Ceiling: 900,
	}
	if err != nil || got.Flow != want || got.AutoPause >= 0 {
		t.Errorf("got %+v, %d, %v", got.Flow, got.AutoPause, err)
	}
	if got, err := read(); err != nil || got.AutoPause != coordinator.DefaultAutoPause {
		t.Errorf("by default: %d, %v", got.AutoPause, err)
	}
	for value, says := range map[string]string{
		"x": `SAGACITY_RETRY_PERCENT is "x"; give a whole number`, "0": "SAGACITY_RETRY_PERCENT is 0; give 1 or more",
	} {
		t.Setenv("SAGACITY_RETRY_PERCENT", value)
		if _, err := read(); err == nil || err.Error() != says {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// docs/cli.md has every flag of serve, with its environment variable and its default.
func TestServeIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if name, rest, ok := strings.Cut(line, "` (`serve`) | "); ok {
			rows[strings.TrimPrefix(name, "| `--")] = strings.TrimSpace(rest)
		}
	}
	for _, f := range flowFlags {
		flag := newServe().Flags().Lookup(f.name)
		if want := "`" + f.env + "` | " + flag.DefValue; !strings.HasPrefix(rows[f.name], want) {
			t.Errorf("docs/cli.md says of --%s: %q, want %q", f.name, rows[f.name], want)
		}
	}
}
