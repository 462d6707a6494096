package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// addressesFile is what dev writes beside its data, for shells to read: export NAME='VALUE' in each line.
const addressesFile = "env"

// devBanks are the participants of dev.
var devBanks = []string{"bank-a", "bank-b"}

// devDir is where dev keeps its data unless it is told otherwise.
func devDir() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "sagacity-dev"), err
}

// writeAddresses writes where everything is into a file that only the user can read, until dev stops, and returns its path.
// DATABASE_URL is the database of a service of the user's.
func (e *devEnv) writeAddresses() (string, error) {
	path := filepath.Join(filepath.Dir(e.cluster.Postgres.LogPath()), addressesFile)
	lines := [][2]string{
		{"SAGACITY_SERVER", e.server.url()},
		{"NATS_URL", e.cluster.NATSURL()},
		{"DATABASE_URL", e.cluster.DSN("service")},
		{envCoordinatorDatabase, e.cluster.DSN("coordinator")},
	}
	for _, name := range devBanks {
		lines = append(lines, [2]string{envParticipant(name), e.cluster.DSN(devDatabase(name))})
	}
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "export %s='%s'\n", line[0], line[1])
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write the addresses: %w", err)
	}
	e.later(func() error { return os.Remove(path) })
	return path, nil
}

func devDatabase(participant string) string { return strings.ReplaceAll(participant, "-", "_") }

// devAddresses reads what a dev that runs with its data in the usual place has written: nothing if there is none.
func devAddresses() (path string, values map[string]string) {
	dir, err := devDir()
	if err != nil {
		return "", nil
	}
	path = filepath.Join(dir, addressesFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil
	}
	values = make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			values[name] = strings.Trim(value, "'")
		}
	}
	return path, values
}
