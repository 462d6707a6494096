package sagacity_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/tcp"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// Every block of the guide is of a kind that something checks, and Go and JSON are what compiles and parses.
func TestSnippets(t *testing.T) {
	t.Parallel()
	var examples []string
	for _, path := range files(t, ".go") {
		if strings.HasPrefix(path, "examples/") {
			examples = append(examples, path)
		}
	}
	found := map[string]int{}
	for _, path := range guide {
		for _, f := range readPage(t, path).fences {
			found[f.lang]++
			switch {
			case f.lang == "go":
				wantInOne(t, f, examples)
			case path == "README.md":
				// TestReadme
			case f.lang == "json":
				checkJSON(t, f)
			case f.lang == "sql" && (path == "docs/operations.md" || path == "docs/security.md" || path == "docs/participants.md"):
				// TestOperationsSQL, TestBarrierSession
			case f.lang == "text" && f.marker == "signatures":
				// TestBarrierSignatures
			case f.lang == "sh":
				// TestCommands
			default:
				t.Errorf("%s: nobody checks this block of %q", f.at, f.lang)
			}
		}
	}
	if found["go"] < 8 || found["json"] < 4 || found["sql"] < 15 {
		t.Errorf("hardly any block was found: %v", found)
	}
}

func wantInOne(t *testing.T, f fence, paths []string) {
	t.Helper()
	for _, path := range paths {
		if strings.Contains(read(t, path), f.text) {
			return
		}
	}
	t.Errorf("%s is in no file below examples", f.at)
}

func checkJSON(t *testing.T, f fence) {
	t.Helper()
	what, name, _ := strings.Cut(f.marker, ": ")
	switch what {
	case "file":
		wantSame(t, f, name)
		wantSubmission(t, f)
	case "submission":
		wantSubmission(t, f)
	case "refused":
		var invalid *saga.InvalidError
		if _, err := saga.ParseDefinition([]byte(f.text)); !errors.As(err, &invalid) || invalid.Code != name {
			t.Errorf("%s: got %v", f.at, err)
		}
	default:
		t.Errorf("%s: the comment before it does not say what it is", f.at)
	}
}

// The tables of defaults and limits have the program's values.
func TestDefaults(t *testing.T) {
	t.Parallel()
	minutes := func(d time.Duration) string {
		text := d.String()
		for _, zero := range []string{"0s", "0m"} { // 1m0s is 1m
			if cut, ok := strings.CutSuffix(text, zero); ok && strings.HasSuffix(cut, "m") || ok && strings.HasSuffix(cut, "h") {
				text = cut
			}
		}
		return text
	}
	limits := func(low, high time.Duration) string { return minutes(low) + " to " + minutes(high) }
	definitions := map[string][2]string{
		"`timeout` of the definition": {minutes(saga.DefaultTimeout), limits(saga.TimeoutMin, saga.TimeoutMax)},
		"`attempt_timeout` of a step": {minutes(saga.DefaultAttemptTimeout), limits(saga.AttemptTimeoutMin, saga.AttemptTimeoutMax)},
		"`retry.base`":                {minutes(saga.DefaultBackoffBase), limits(time.Millisecond, saga.BackoffMax)},
		"`retry.cap`":                 {minutes(saga.DefaultBackoffCap), limits(time.Millisecond, saga.BackoffMax)},
		"`retry.max_attempts`":        {itoa(saga.DefaultTryAttempts), "1 to " + itoa(saga.AttemptsMax)},
		"`retry.phase_two_attempts`":  {itoa(saga.DefaultPhaseTwoTries), "1 to " + itoa(saga.AttemptsMax)},
	}
	for name, want := range definitions {
		row := tableRow(t, "docs/definitions.md", name)
		if row[2] != want[0] || row[3] != want[1] {
			t.Errorf("docs/definitions.md: %s is %s with limits %s, not %s with %s", name, want[0], want[1], row[2], row[3])
		}
	}
	participants := map[string]string{
		"`participant.Config.Concurrency`":    itoa(participant.DefaultConcurrency),
		"`participant.Config.HandlerTimeout`": minutes(participant.DefaultHandlerTimeout),
		"`participant.Config.LockTimeout`":    minutes(participant.DefaultLockTimeout),
		"`participant.Config.DrainTimeout`":   minutes(participant.DefaultDrainTimeout),
		"`participant.Config.AckWait`":        minutes(participant.DefaultAckWait),
		"`participant.Config.DeliveriesMax`":  itoa(participant.DefaultDeliveriesMax),
	}
	operations := map[string]string{
		"`timeout` of a definition or submission":            minutes(saga.DefaultTimeout),
		"`attempt_timeout` of a step":                        minutes(saga.DefaultAttemptTimeout),
		"connecting to PostgreSQL":                           minutes(pg.DefaultConnectTimeout),
		"TCP keepalive of PostgreSQL connections":            minutes(pg.DefaultKeepAlive),
		"TCP user timeout of PostgreSQL connections (Linux)": minutes(pg.DefaultUserTimeout),
		"answer of PostgreSQL to one statement":              minutes(pg.DefaultIOTimeout),
		"TCP keepalive of NATS connections":                  minutes(tcp.DefaultKeepAlive),
		"TCP user timeout of NATS connections (Linux)":       minutes(tcp.DefaultUserTimeout),
		"idle PostgreSQL connection":                         minutes(pg.DefaultMaxConnIdleTime),
		"age of a PostgreSQL connection":                     minutes(pg.DefaultMaxConnLifetime),
		"connecting to NATS at start":                        minutes(bus.DefaultConnectTimeout),
		"PubAck of NATS":                                     minutes(bus.DefaultPublishTimeout),
		"outbox: age at which the poll takes a row":          minutes(outbox.DefaultGrace),
		"outbox: claim of a row":                             minutes(outbox.DefaultClaimTime),
		"life of a command in NATS":                          minutes(bus.DefaultCommandAgeMax),
		"life of a reply in NATS":                            minutes(bus.DefaultReplyAgeMax),
		"duplicates window of NATS":                          minutes(bus.DefaultDuplicatesWindow),
	}
	for name, want := range participants {
		if got := tableRow(t, "docs/participants.md", name)[1]; got != want {
			t.Errorf("docs/participants.md: %s is %s, not %s", name, want, got)
		}
		if strings.HasSuffix(name, "Timeout`") || strings.HasSuffix(name, "Wait`") {
			operations[name] = want
		}
	}
	for name, want := range operations {
		if got := tableRow(t, "docs/operations.md", name)[1]; got != want {
			t.Errorf("docs/operations.md: %s is %s, not %s", name, want, got)
		}
	}
}

// tableRow returns the row whose first cell is name.
func tableRow(t *testing.T, path, name string) []string {
	t.Helper()
	for _, row := range readPage(t, path).tableRows() {
		if row[0] == name {
			return row
		}
	}
	t.Fatalf("%s has no row %s", path, name)
	return nil
}

// The codes that the guide names are those of the API, and each code of a fault is explained.
func TestCodes(t *testing.T) {
	t.Parallel()
	api := readPage(t, "docs/api.md").anchors
	code := regexp.MustCompile("^`([a-z_]+)`$")
	refused := 0
	for _, row := range readPage(t, "docs/definitions.md").tableRows() {
		if m := code.FindStringSubmatch(row[0]); m != nil && len(row) == 3 && strings.Contains(m[1], "_") && !strings.HasPrefix(m[1], "inputs") {
			refused++
			if !api[m[1]] {
				t.Errorf("docs/definitions.md: docs/api.md does not have the code %s", m[1])
			}
		}
	}
	if refused < 12 {
		t.Errorf("docs/definitions.md: only %d codes were found", refused)
	}
	explained := ""
	for _, row := range readPage(t, "docs/operations.md").tableRows() {
		explained += row[0] + " "
	}
	for _, cause := range []string{
		saga.DeadLetterExhausted, saga.DeadLetterPanic, saga.DeadLetterUnknown, saga.FaultConflict, saga.FaultNotTried,
		saga.FaultContradicts, saga.FaultUndecodable, saga.FaultRefusedPhaseTwo, saga.FaultSuperseded, saga.FaultPastRetention,
		saga.FaultPoison, saga.FaultHandler, saga.FaultResultTooLarge, string(saga.DeadLetterOpen), string(saga.DeadLetterReplaying),
		string(saga.DeadLetterClosed), string(saga.DeadLetterObsolete), string(saga.DeadLetterDiscarded),
	} {
		if !strings.Contains(explained, "`"+cause+"`") {
			t.Errorf("docs/operations.md does not explain %s", cause)
		}
	}
}

// The tests that the page on reliability names exist.
func TestReliabilityNamesTests(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, path := range files(t, "_test.go") {
		for _, m := range declared.FindAllStringSubmatch(read(t, path), -1) {
			exists[m[1]] = true
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`").FindAllStringSubmatch(readPage(t, "docs/reliability.md").prose, -1)
	for _, m := range named {
		if !exists[m[1]] {
			t.Errorf("docs/reliability.md names %s, which is no test", m[1])
		}
	}
	if len(named) < 30 {
		t.Errorf("docs/reliability.md names only %d tests", len(named))
	}
}
