package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator"
)

func TestRetentionFlags(t *testing.T) {
	read := func(args ...string) (coordinator.Retention, error) {
		var r coordinator.Retention
		cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error { return readRetentionFlags(cmd, &r) }}
		addRetentionFlags(cmd, &r)
		cmd.SetArgs(args)
		return r, cmd.Execute()
	}
	if r, err := read(); err != nil || r != (coordinator.Retention{}).WithDefaults() {
		t.Errorf("defaults: %+v, %v", r, err)
	}
	t.Setenv("SAGACITY_AUDIT_RETENTION", "2d")
	t.Setenv("SAGACITY_KEY_MEMORY", "2d")
	var r coordinator.Retention
	cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error { return readRetentionFlags(cmd, &r) }}
	addRetentionFlags(cmd, &r)
	cmd.SetArgs([]string{"--retention", "36h", "--key-memory", "off"})
	if err := cmd.Execute(); err != nil || r.Transactions != 36*time.Hour || r.KeyMemory >= 0 || r.Audit != 48*time.Hour {
		t.Errorf("%+v, %v", r, err)
	}
	for _, wrong := range []string{"", "7", "0d", "10m", "d", "-5d", "never", "99999d"} {
		if _, err := read("--retention", wrong); err == nil {
			t.Errorf("--retention %q was accepted", wrong)
		}
	}
	t.Setenv("SAGACITY_RETENTION", "soon")
	if _, err := read(); err == nil {
		t.Error("SAGACITY_RETENTION=soon was accepted")
	}
}
