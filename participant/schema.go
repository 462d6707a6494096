package participant

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	migrations "github.com/sagacity-tx/sagacity/migrations/participant"
)

// SchemaVersion is the version of the barrier's tables and functions that this package works with.
const SchemaVersion = 4

// schemaLock is the key of the advisory lock that lets one migration run at a time in a database.
const schemaLock = 0x5a6a_6261_7272_6965

// ErrSchema is matched by errors about the barrier's tables and functions: not installed, or of a version that
// this package does not know.
var ErrSchema = errors.New("participant: schema")

// Beginner is a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// SchemaSQL returns the SQL that installs the barrier in an empty database, for those who do not let services
// change schemas. Run it in one transaction: psql -1 -f.
func SchemaSQL() string {
	sql := ""
	for _, m := range schemaFiles() {
		sql += m.sql
	}
	return sql
}

// Migrate installs the barrier's tables and functions in the schema saga of the participant's database, or
// brings them up to date; if they are, it changes nothing. All of it is one transaction, and any number of
// processes may call it at once. It needs the right to create objects in the schema saga, and to create that
// schema if it is missing. A database that is newer than this package is an error that matches ErrSchema.
func Migrate(ctx context.Context, db Beginner) error {
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
			return err
		}
		installed, err := schemaVersion(ctx, tx)
		if err != nil {
			return err
		}
		if installed > SchemaVersion {
			return fmt.Errorf("%w: the database has version %d, this program knows %d: update the program", ErrSchema, installed, SchemaVersion)
		}
		for _, m := range schemaFiles() {
			if m.version <= installed {
				continue
			}
			// The simple protocol is the one that takes many statements at once.
			if _, err := tx.Exec(ctx, m.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("participant: migrate: %w", err)
	}
	return nil
}

// CheckSchema returns an error that matches ErrSchema unless the database has the version that this package
// works with.
func CheckSchema(ctx context.Context, db Beginner) error {
	return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		installed, err := schemaVersion(ctx, tx)
		switch {
		case err != nil:
			return err
		case installed == 0:
			return fmt.Errorf("%w: the barrier is not installed in this database: run participant.Migrate, or apply participant.SchemaSQL", ErrSchema)
		case installed != SchemaVersion:
			return fmt.Errorf("%w: the database has version %d, this program needs %d", ErrSchema, installed, SchemaVersion)
		}
		return nil
	})
}

// schemaVersion returns the installed version, 0 for none.
func schemaVersion(ctx context.Context, tx pgx.Tx) (int, error) {
	// Not to_regclass: in a session that has missed the table before, it goes on missing a table that another has
	// committed while this transaction waited for its lock.
	const find = `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'saga' AND c.relname = 'barrier_version')`
	var exists bool
	if err := tx.QueryRow(ctx, find).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	var version int
	err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM saga.barrier_version").Scan(&version)
	if pg.Code(err) == "42501" {
		return 0, fmt.Errorf("%w: this database role may not read the schema saga: %w", ErrSchema, err)
	}
	return version, err
}

type schemaFile struct {
	version int
	name    string
	sql     string
}

// schemaFiles returns the embedded files by version. That they can be read is settled when the program is built.
func schemaFiles() []schemaFile {
	entries, err := fs.ReadDir(migrations.FS, ".")
	if err != nil {
		panic(err)
	}
	files := make([]schemaFile, 0, len(entries))
	for _, e := range entries {
		sql, err := migrations.FS.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		version, err := strconv.Atoi(e.Name()[:5])
		if err != nil {
			panic(err)
		}
		files = append(files, schemaFile{version: version, name: e.Name(), sql: string(sql)})
	}
	return files
}
