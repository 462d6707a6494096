package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator"
)

// period is how long something is kept: a flag of days, hours or "off".
type period struct{ value *time.Duration }

func (p period) String() string {
	switch {
	case p.value == nil || *p.value == 0:
		return ""
	case *p.value < 0:
		return "off"
	case *p.value%(24*time.Hour) == 0:
		return strconv.Itoa(int(*p.value/(24*time.Hour))) + "d"
	}
	return p.value.String()
}

func (p period) Type() string { return "period" }

func (p period) Set(text string) error {
	if text == "off" {
		*p.value = -1
		return nil
	}
	d, err := parseSpan(text)
	if err != nil || d < time.Hour {
		return usageError("%q is no period of an hour or more; give for example 30d, 36h or off", text)
	}
	*p.value = d
	return nil
}

// parseSpan reads a duration, also one of whole days such as 30d.
func parseSpan(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	const daysMax = 36_500
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > daysMax {
		return 0, fmt.Errorf("%q is no number of days from 0 to %d", days, daysMax)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// retentionFlags say how long what has ended is kept (I-9, S1.3).
var retentionFlags = []struct {
	name, env, usage string
	fallback         time.Duration
	field            func(*coordinator.Retention) *time.Duration
}{
	{
		"retention", "SAGACITY_RETENTION", "how long transactions are kept after their end, up to a week more",
		coordinator.DefaultRetention, func(r *coordinator.Retention) *time.Duration { return &r.Transactions },
	},
	{
		"key-memory", "SAGACITY_KEY_MEMORY", "how long request ids are known as used after that",
		coordinator.DefaultKeyMemory, func(r *coordinator.Retention) *time.Duration { return &r.KeyMemory },
	},
	{
		"dead-letter-retention", "SAGACITY_DEAD_LETTER_RETENTION", "how long dead letters are kept after their end",
		coordinator.DefaultDeadLetterRetention, func(r *coordinator.Retention) *time.Duration { return &r.DeadLetters },
	},
	{
		"incident-retention", "SAGACITY_INCIDENT_RETENTION", "how long incidents are kept, up to thirteen weeks more",
		coordinator.DefaultIncidentRetention, func(r *coordinator.Retention) *time.Duration { return &r.Incidents },
	},
	{
		"audit-retention", "SAGACITY_AUDIT_RETENTION", "how long the audit is kept, up to thirteen weeks more",
		coordinator.DefaultAuditRetention, func(r *coordinator.Retention) *time.Duration { return &r.Audit },
	},
}

func addRetentionFlags(cmd *cobra.Command, r *coordinator.Retention) {
	for _, f := range retentionFlags {
		*f.field(r) = f.fallback
		cmd.Flags().Var(period{f.field(r)}, f.name, f.usage+"; off: for ever ("+f.env+")")
	}
}

// readRetentionFlags takes what was not given as a flag from the environment.
func readRetentionFlags(cmd *cobra.Command, r *coordinator.Retention) error {
	for _, f := range retentionFlags {
		if text := envOr(f.env, ""); text != "" && !cmd.Flags().Changed(f.name) {
			if err := (period{f.field(r)}).Set(text); err != nil {
				return usageError("%s: %w", f.env, err)
			}
		}
	}
	return nil
}
