package pg_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
)

// An Array is written as pgx writes its own.
func TestArrayIsWrittenAsPgxDoes(t *testing.T) {
	t.Parallel()
	ids := []pgtype.UUID{{Bytes: uuid.New(), Valid: true}, {}, {Bytes: uuid.New(), Valid: true}}
	instants := []pgtype.Timestamptz{{Time: time.Now(), Valid: true}, {}, {InfinityModifier: pgtype.Infinity, Valid: true}}
	for name, c := range map[string]struct {
		oid       uint32
		own, pgxs any
	}{
		"ids":            {pgtype.UUIDArrayOID, pg.Array[pgtype.UUID](ids), pgtype.FlatArray[pgtype.UUID](ids)},
		"no ids":         {pgtype.UUIDArrayOID, pg.Array[pgtype.UUID]{}, pgtype.FlatArray[pgtype.UUID]{}},
		"null for ids":   {pgtype.UUIDArrayOID, pg.Array[pgtype.UUID](nil), pgtype.FlatArray[pgtype.UUID](nil)},
		"NULL comes 1st": {pgtype.UUIDArrayOID, pg.Array[pgtype.UUID](ids[1:]), pgtype.FlatArray[pgtype.UUID](ids[1:])},
		"instants":       {pgtype.TimestamptzArrayOID, pg.Array[pgtype.Timestamptz](instants), pgtype.FlatArray[pgtype.Timestamptz](instants)},
	} {
		m := pgtype.NewMap()
		own, err := m.Encode(c.oid, pgtype.BinaryFormatCode, c.own, nil)
		want, wantErr := m.Encode(c.oid, pgtype.BinaryFormatCode, c.pgxs, nil)
		if err != nil || wantErr != nil || !bytes.Equal(own, want) || (own == nil) != (want == nil) {
			t.Errorf("%s: %x, %v; pgx writes %x, %v", name, own, err, want, wantErr)
		}
	}
}

func BenchmarkArray(b *testing.B) {
	ids, instants := make([]pgtype.UUID, 64), make([]pgtype.Timestamptz, 64)
	for i := range ids {
		ids[i] = pgtype.UUID{Bytes: uuid.New(), Valid: true}
		instants[i] = pgtype.Timestamptz{Time: time.Now(), Valid: true}
	}
	m := pgtype.NewMap()
	for _, c := range []struct {
		name  string
		oid   uint32
		value any
	}{
		{"ids", pgtype.UUIDArrayOID, pg.Array[pgtype.UUID](ids)},
		{"ids/pgx", pgtype.UUIDArrayOID, pgtype.FlatArray[pgtype.UUID](ids)},
		{"instants", pgtype.TimestamptzArrayOID, pg.Array[pgtype.Timestamptz](instants)},
		{"instants/pgx", pgtype.TimestamptzArrayOID, pgtype.FlatArray[pgtype.Timestamptz](instants)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				buf, _ = m.Encode(c.oid, pgtype.BinaryFormatCode, c.value, buf[:0])
			}
		})
	}
}
