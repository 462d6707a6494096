package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// How the tables are filled: so many rows in a statement, over so many weeks.
const (
	fillChunk      = 20_000
	fillWeeks      = 4
	fillLoadersMax = 4
	fillSayEvery   = 2 * time.Second
)

// fill runs one transaction and adds copies of it, finished in the past weeks and in this one.
func (s *site) fill(ctx context.Context, rows int) error {
	if err := s.startNodes(ctx, 1); err != nil {
		return err
	}
	if err := s.nodes[0].do(ctx, 0, ""); err != nil {
		return fmt.Errorf("the transaction to copy: %w", err)
	}
	if err := s.stopNodes(); err != nil {
		return err
	}
	pool, err := s.loaders(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := makeWeeks(ctx, pool); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"preparing to load", each(ctx, pool, sqlDropKey, `ALTER SYSTEM SET max_wal_size = '4GB'`, `SELECT pg_reload_conf()`)},
		{fmt.Sprintf("loading %s finished transactions", grouped(rows)), func() error { return load(ctx, pool, rows, s.st.stderr) }},
		{"building the index of request ids", each(ctx, pool, sqlAddKey)},
		{"vacuum and analyze", each(ctx, pool, sqlVacuum)},
		{"checkpoint", each(ctx, pool, `ALTER SYSTEM RESET max_wal_size`, `SELECT pg_reload_conf()`, `CHECKPOINT`)},
	} {
		began := time.Now()
		s.st.say("%s", step.what)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		s.st.say("  took %s", time.Since(began).Round(100*time.Millisecond))
	}
	return errors.Join(s.checkFilled(ctx, rows), s.saySizes(ctx))
}

// checkFilled counts what is in the tables: these rows at least, or what was measured beside them means nothing.
func (s *site) checkFilled(ctx context.Context, rows int) error {
	var finished, submissions, requests, operations, weeks int
	if err := s.pool.QueryRow(ctx, sqlFilled).Scan(&finished, &submissions, &requests, &operations, &weeks); err != nil {
		return err
	}
	if min(finished, submissions, requests, operations/steps) < rows || weeks < fillWeeks {
		return fmt.Errorf("%d finished transactions, %d submissions, %d request ids and %d operations of %d weeks are in the tables; want %d, their %d operations and %d weeks",
			finished, submissions, requests, operations, weeks, rows, steps*rows, fillWeeks)
	}
	return nil
}

// saySizes says how large it all is on disk.
func (s *site) saySizes(ctx context.Context) error {
	var whole, transactions, submissions, operations, requests string
	if err := s.pool.QueryRow(ctx, sqlSizes).Scan(&whole, &transactions, &submissions, &operations, &requests); err != nil {
		return err
	}
	s.st.say("  on disk: %s; transactions %s, submissions %s, operations %s, requests %s", whole, transactions, submissions, operations, requests)
	return nil
}

// loaders opens connections that need not wait for the disk.
func (s *site) loaders(ctx context.Context) (*pgxpool.Pool, error) {
	cfg := s.pool.Config()
	cfg.MaxConns = int32(min(runtime.NumCPU(), fillLoadersMax))
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	cfg.ConnConfig.RuntimeParams["maintenance_work_mem"] = "512MB"
	return pgxpool.NewWithConfig(ctx, cfg)
}

func each(ctx context.Context, pool *pgxpool.Pool, statements ...string) func() error {
	return func() error {
		for _, sql := range statements {
			if _, err := pool.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	}
}

func makeWeeks(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, sqlWeeks, fillWeeks)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return each(ctx, pool, append(statements, `SELECT ensure_partitions(4)`)...)() // sets how they are stored
}

// load adds the copies, several statements at a time.
func load(ctx context.Context, pool *pgxpool.Pool, rows int, stderr io.Writer) error {
	var from, to time.Time
	var template string
	if err := pool.QueryRow(ctx, sqlSpan, fillWeeks).Scan(&from, &to); err != nil {
		return err
	}
	if err := pool.QueryRow(ctx, sqlTemplate).Scan(&template); err != nil {
		return err
	}
	p := &fillProgress{w: stderr, total: rows, began: time.Now()}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(int(pool.Config().MaxConns))
	for first := 1; first <= rows; first += fillChunk {
		last := min(first+fillChunk-1, rows)
		group.Go(func() error {
			if _, err := pool.Exec(ctx, sqlFill, first, last, rows, template, from, to); err != nil {
				return fmt.Errorf("rows %d to %d: %w", first, last, err)
			}
			p.add(last - first + 1)
			return nil
		})
	}
	return group.Wait()
}

// fillProgress says now and then how far the loading is.
type fillProgress struct {
	w     io.Writer
	total int
	began time.Time

	mu   sync.Mutex
	done int
	said time.Time
}

func (p *fillProgress) add(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += rows
	if p.done < p.total && time.Since(p.said) < fillSayEvery {
		return
	}
	p.said = time.Now()
	rate := float64(p.done) / time.Since(p.began).Seconds()
	left := time.Duration(float64(p.total-p.done) / rate * float64(time.Second))
	fmt.Fprintf(p.w, "  %s of %s, %3d %%, %s/s, %s left\n", grouped(p.done), grouped(p.total), p.done*100/p.total, grouped(int(rate)), left.Round(time.Second))
}

// grouped writes a number that is not negative with commas.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return strings.Join([]string{grouped(n / 1000), fmt.Sprintf("%03d", n%1000)}, ",")
}
