package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// flowFlags bound what is sent to each participant (R1, R2, R3, R4, E2). All of them are whole numbers.
var flowFlags = []struct {
	name, env, usage string
	fallback, min    int
	field            func(*serverConfig) *int
}{
	{
		"participant-in-flight", "SAGACITY_PARTICIPANT_IN_FLIGHT", "most attempts in flight to one participant, of all coordinators",
		flow.DefaultInFlightMax, 1, func(c *serverConfig) *int { return &c.Flow.InFlightMax },
	},
	{
		"retry-percent", "SAGACITY_RETRY_PERCENT", "retries to one participant, per 100 first attempts of the last ten seconds",
		flow.DefaultRetryPercent, 1, func(c *serverConfig) *int { return &c.Flow.RetryPercent },
	},
	{
		"retry-floor", "SAGACITY_RETRY_FLOOR", "retries per second to one participant that are allowed however little traffic it has",
		flow.DefaultRetryFloor, 1, func(c *serverConfig) *int { return &c.Flow.RetryFloor },
	},
	{
		"breaker-timeouts", "SAGACITY_BREAKER_TIMEOUTS", "attempts in a row without any reply after which a participant counts as silent",
		flow.DefaultBreakerTimeouts, 1, func(c *serverConfig) *int { return &c.Flow.BreakerTimeouts },
	},
	{
		"drain-ceiling", "SAGACITY_DRAIN_CEILING", "commands per second to a participant that was silent while its backlog drains; 0: as many as it answered at best of late",
		0, 0, func(c *serverConfig) *int { return &c.Flow.Ceiling },
	},
	{
		"auto-pause", "SAGACITY_AUTO_PAUSE", "dead letters of one action and cause in a minute above which the action is paused; 0: never",
		coordinator.DefaultAutoPause, 0, func(c *serverConfig) *int { return &c.AutoPause },
	},
}

func addFlowFlags(cmd *cobra.Command, cfg *serverConfig) {
	cmd.Flags().BoolVar(&cfg.Flow.Unprotected, "unprotected", false,
		"for experiments only: no retry budget, no breaker and no ceiling keep a participant from being flooded")
	for _, f := range flowFlags {
		cmd.Flags().IntVar(f.field(cfg), f.name, f.fallback, f.usage+" ("+f.env+")")
	}
}

// readFlowFlags takes what was not given as a flag from the environment, and checks all of it.
func readFlowFlags(cmd *cobra.Command, cfg *serverConfig) error {
	for _, f := range flowFlags {
		value, source := f.field(cfg), "--"+f.name
		if text := envOr(f.env, ""); text != "" && !cmd.Flags().Changed(f.name) {
			n, err := strconv.Atoi(text)
			if err != nil {
				return usageError("%s is %q; give a whole number", f.env, text)
			}
			*value, source = n, f.env
		}
		if *value < f.min {
			return usageError("%s is %d; give %d or more", source, *value, f.min)
		}
	}
	if cfg.Flow.Unprotected {
		cfg.Log.Warn("participants are not protected from floods of commands (--unprotected): this is for experiments only")
	}
	if cfg.AutoPause == 0 {
		cfg.AutoPause = -1 // zero is the default there
	}
	return nil
}
