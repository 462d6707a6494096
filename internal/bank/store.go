package bank

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// Migrate makes the tables of the bank and the barrier. It may be called again, and by several processes at
// once. alter, if given, changes the SQL of a barrier that is not installed yet: for demonstrations of what a
// safeguard is good for.
func Migrate(ctx context.Context, pool *pgxpool.Pool, alter ...func(sql string) (string, error)) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, migrateLock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schemaSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("bank: make the tables: %w", err)
	}
	if len(alter) > 0 {
		return installAltered(ctx, pool, alter)
	}
	return participant.Migrate(ctx, pool)
}

func installAltered(ctx context.Context, pool *pgxpool.Pool, alter []func(sql string) (string, error)) error {
	sql := participant.SchemaSQL()
	for _, f := range alter {
		var err error
		if sql, err = f(sql); err != nil {
			return err
		}
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, migrateLock); err != nil {
			return err
		}
		installed := false
		err := tx.QueryRow(ctx, `SELECT to_regclass('saga.barrier_version') IS NOT NULL`).Scan(&installed)
		if err != nil || installed {
			return err
		}
		_, err = tx.Exec(ctx, sql)
		return err
	})
	if err != nil {
		return fmt.Errorf("bank: install the altered barrier: %w", err)
	}
	return nil
}

// Seed makes accounts with a balance. Accounts that exist stay as they are.
func Seed(ctx context.Context, pool *pgxpool.Pool, balanceCents int64, accounts ...string) error {
	if _, err := pool.Exec(ctx, sqlSeed, accounts, balanceCents); err != nil {
		return fmt.Errorf("bank: seed: %w", err)
	}
	return nil
}

// Total returns Σ(balance + held) in cents (I-12).
func Total(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	return one[int64](ctx, pool, sqlTotal)
}

// HeldTotal returns the cents that are held or expected: 0 when nothing is under way (I-12).
func HeldTotal(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	return one[int64](ctx, pool, sqlHeld)
}

// Balance returns an account's balance in cents.
func Balance(ctx context.Context, pool *pgxpool.Pool, account string) (int64, error) {
	return one[int64](ctx, pool, sqlBalance, account)
}

// Runs returns how often the handler of an operation ran and was committed.
func Runs(ctx context.Context, pool *pgxpool.Pool, key saga.OperationKey) (int, error) {
	return one[int](ctx, pool, sqlRuns, key.Tenant, [16]byte(key.Transaction), key.Step, string(key.Phase))
}

// Repeated names the operations whose effect happened more than once: none, unless a safeguard is off (I-3).
func Repeated(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	rows, err := pool.Query(ctx, sqlRepeated)
	if err != nil {
		return nil, fmt.Errorf("bank: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Switch turns a switch on or off, see Wish.
func Switch(ctx context.Context, pool *pgxpool.Pool, name string, on bool) error {
	if _, err := pool.Exec(ctx, sqlSwitchSet, name, on); err != nil {
		return fmt.Errorf("bank: switch %s: %w", name, err)
	}
	return nil
}

func one[T any](ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) (v T, err error) {
	if err := pool.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		return v, fmt.Errorf("bank: %w", err)
	}
	return v, nil
}
