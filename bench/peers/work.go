package main

import (
	"context"
	"fmt"
)

// work is what every side does: the same steps on the same accounts.
type work string

const (
	workNoop    work = "noop"    // a saga of 3 steps whose participants do nothing
	workBank    work = "bank"    // a saga of 3 steps, each the barrier and one UPDATE
	workFailing work = "failing" // bank, refused at its third step and compensated
	workTCC     work = "tcc"     // 3 branches, each the barrier and one UPDATE in try and in confirm
)

var works = []work{workNoop, workBank, workFailing, workTCC}

// side is one of those that are compared.
type side interface {
	name() string
	// do runs transaction n to its end and fails unless it ended as the work has it.
	do(ctx context.Context, w work, n int64) error
	// does reports whether this side takes part in the work.
	does(w work) bool
	stop() error
}

const (
	accountsMax  = 30_000
	balanceCents = 1_000_000_000_000
	steps        = 3
)

// accountOf returns the account of a step of transaction n: never the same for two transactions under way, so
// that no side queues for a row.
func accountOf(n int64, step int) int64 { return (n*steps + int64(step)) % accountsMax }

// The statements of participants, the same on every side: $1 account, $2 cents.
const (
	sqlMove    = `UPDATE accounts SET balance_cents = balance_cents + $2 WHERE id = $1`
	sqlHold    = `UPDATE accounts SET held_cents = held_cents + $2 WHERE id = $1`
	sqlRelease = `UPDATE accounts SET held_cents = held_cents - $2 WHERE id = $1`
	sqlUse     = `UPDATE accounts SET held_cents = held_cents - $2, balance_cents = balance_cents + $2 WHERE id = $1`

	sqlAccounts = `
CREATE TABLE accounts (id bigint PRIMARY KEY, balance_cents bigint NOT NULL, held_cents bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO accounts (id, balance_cents) SELECT n, 1000000000000 FROM generate_series(0, 29999) AS n`
	sqlTotals = `SELECT sum(balance_cents)::bigint, sum(held_cents)::bigint FROM accounts`
)

// centsOf returns what a step moves: the sum over a transaction's steps is zero.
func centsOf(step int) int64 {
	if step == 0 {
		return -2
	}
	return 1
}

// move is what a step is told.
type move struct {
	Account int64 `json:"account"`
	Cents   int64 `json:"cents"`
	Refuse  bool  `json:"refuse,omitempty"`
}

func movesOf(w work, n int64) [steps]move {
	var m [steps]move
	for step := range m {
		m[step] = move{Account: accountOf(n, step), Cents: centsOf(step), Refuse: w == workFailing && step == steps-1}
	}
	return m
}

// wrongEnd says that a transaction did not end as its work has it.
func wrongEnd(w work, n int64, got string) error {
	return fmt.Errorf("transaction %d of %s ended as %q", n, w, got)
}
