package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator"
)

const envEvents = "SAGACITY_EVENTS"

// addEventFlags says what a coordinator tells others.
func addEventFlags(cmd *cobra.Command, cfg *serverConfig) {
	choiceFlag(cmd, (*string)(&cfg.Events), "events", "", eventsModes(),
		"lifecycle events that are published ("+envEvents+"; default "+string(coordinator.EventsExceptions)+")")
}

// readEventFlags takes what was not given as a flag from the environment, and checks it.
func readEventFlags(cfg *serverConfig) error {
	fromEnv((*string)(&cfg.Events), envEvents, string(coordinator.EventsExceptions))
	if !slices.Contains(coordinator.EventsModes, cfg.Events) {
		return usageError("--events (%s) is %q; use %s", envEvents, cfg.Events, strings.Join(eventsModes(), ", "))
	}
	return nil
}

func eventsModes() []string {
	var list []string
	for _, m := range coordinator.EventsModes {
		list = append(list, fmt.Sprint(m))
	}
	return list
}
