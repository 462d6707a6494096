package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator"
)

const (
	envEvents   = "SAGACITY_EVENTS"
	envLinkBase = "SAGACITY_WEBHOOK_LINK_BASE"
)

// addEventFlags says what a coordinator tells others.
func addEventFlags(cmd *cobra.Command, cfg *serverConfig) {
	choiceFlag(cmd, (*string)(&cfg.Events), "events", "", eventsModes(),
		"lifecycle events that are published ("+envEvents+"; default "+string(coordinator.EventsExceptions)+")")
	f := cmd.Flags()
	f.BoolVar(&cfg.Webhooks.AllowPrivate, "webhook-allow-private", false, "webhooks may be http, on this machine and in private networks")
	f.StringVar(&cfg.Webhooks.Links.API, "webhook-link-base", "", "what begins the links into the API that webhooks are told ("+envLinkBase+")")
}

// readEventFlags takes what was not given as a flag from the environment, and checks it.
func readEventFlags(cfg *serverConfig) error {
	fromEnv((*string)(&cfg.Events), envEvents, string(coordinator.EventsExceptions))
	if !slices.Contains(coordinator.EventsModes, cfg.Events) {
		return usageError("--events (%s) is %q; use %s", envEvents, cfg.Events, strings.Join(eventsModes(), ", "))
	}
	fromEnv(&cfg.Webhooks.Links.API, envLinkBase, "")
	base := &cfg.Webhooks.Links.API
	if *base = strings.TrimSuffix(*base, "/"); *base != "" && !strings.HasPrefix(*base, "https://") && !strings.HasPrefix(*base, "http://") {
		return usageError("--webhook-link-base (%s) is %q; use a URL such as https://saga.example.com", envLinkBase, *base)
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
