package main

import (
	"os"
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

// The guide's table of time limits says what the code does (T2).
func TestTimeLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Time limits\n")
	if !found {
		t.Fatal("there is no section on time limits")
	}
	limits := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) > 3 {
			limits[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
		}
	}
	short := func(ds ...time.Duration) string {
		var texts []string
		for _, d := range ds {
			s := d.String()
			for _, zero := range []string{"m0s", "h0m"} {
				if strings.HasSuffix(s, zero) {
					s = s[:len(s)-2]
				}
			}
			texts = append(texts, s)
		}
		return strings.Join(texts, " and ")
	}
	for limit, want := range map[string]string{
		"`timeout` of a definition or submission":                  short(saga.DefaultTimeout),
		"`attempt_timeout` of a step":                              short(saga.DefaultAttemptTimeout),
		"`retry.base` and `retry.cap` of a step":                   short(saga.DefaultBackoffBase, saga.DefaultBackoffCap),
		"`participant.Config.HandlerTimeout`":                      short(participant.DefaultHandlerTimeout),
		"`participant.Config.LockTimeout`":                         short(participant.DefaultLockTimeout),
		"`participant.Config.AckWait`":                             short(participant.DefaultAckWait),
		"`participant.Config.DrainTimeout`":                        short(participant.DefaultDrainTimeout),
		"connecting to PostgreSQL":                                 short(pg.DefaultConnectTimeout),
		"TCP keepalive of PostgreSQL connections":                  short(pg.DefaultKeepAlive),
		"TCP user timeout of PostgreSQL connections (Linux)":       short(pg.DefaultUserTimeout),
		"answer of PostgreSQL to one statement":                    short(pg.DefaultIOTimeout),
		"idle PostgreSQL connection":                               short(pg.DefaultMaxConnIdleTime),
		"age of a PostgreSQL connection":                           short(pg.DefaultMaxConnLifetime),
		"connecting to NATS at start":                              short(bus.DefaultConnectTimeout),
		"TCP keepalive of NATS connections":                        short(tcp.DefaultKeepAlive),
		"TCP user timeout of NATS connections (Linux)":             short(tcp.DefaultUserTimeout),
		"PubAck of NATS":                                           short(bus.DefaultPublishTimeout),
		"outbox: age at which the poll takes a row":                short(outbox.DefaultGrace),
		"outbox: claim of a row":                                   short(outbox.DefaultClaimTime),
		"life of a command in NATS":                                short(bus.DefaultCommandAgeMax),
		"life of a reply in NATS":                                  short(bus.DefaultReplyAgeMax),
		"duplicates window of NATS":                                short(bus.DefaultDuplicatesWindow),
		"TCP keepalive and user timeout of connections to the API": strings.ReplaceAll(short(tcp.DefaultKeepAlive, tcp.DefaultUserTimeout), " and ", ", "),
	} {
		if got := limits[limit]; got != want {
			t.Errorf("%s: the guide says %q, the code %q", limit, got, want)
		}
	}
}
