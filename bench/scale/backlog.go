package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// backlog runs `make backlog` and takes its verdicts, which are those on P7 and P8.
func backlog(ctx context.Context, cfg config, r *report, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "bench-scale-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "verdicts.json")
	cmd := exec.CommandContext(ctx, "make", "backlog", "TRANSACTIONS="+strconv.Itoa(cfg.transactions))
	cmd.Env = append(os.Environ(), "E2E_VERDICTS="+path)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	failed := cmd.Run() // also if a verdict is bad, which is no failure of ours
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("p7, p8: make backlog came to no verdict: %w", errors.Join(failed, err))
	}
	figures, err := readVerdicts(text)
	if err != nil {
		return fmt.Errorf("p7, p8: %w", err)
	}
	for i := range figures {
		figures[i].What = grouped(cfg.transactions) + " waiting: " + figures[i].What
	}
	r.add(figures...)
	return nil
}

// readVerdicts reads what the end-to-end tests write to E2E_VERDICTS.
func readVerdicts(text []byte) ([]figure, error) {
	var verdicts []struct {
		Rule, What, Want, Got string
		OK                    bool
	}
	if err := json.Unmarshal(text, &verdicts); err != nil {
		return nil, fmt.Errorf("the verdicts cannot be read: %w", err)
	}
	figures := make([]figure, len(verdicts))
	for i, v := range verdicts {
		figures[i] = figure{ID: v.Rule, What: v.What, Want: v.Want, Got: strings.TrimSpace(v.Got), Verdict: judge(v.OK)}
	}
	return figures, nil
}
