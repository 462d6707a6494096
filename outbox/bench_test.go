package outbox_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
)

// BenchmarkRelay inserts, publishes and deletes: what a message costs beside the state it follows from.
func BenchmarkRelay(b *testing.B) {
	pool, s := testdb.New(b, schema), newStream(b, nil)
	r, stop := run(b, outbox.Config{Pool: pool, Publisher: s.publish, PollInterval: time.Second})
	msgs := numbered(s.prefix+".x", 100)
	for i := range msgs {
		msgs[i].Data = make([]byte, 300)
		msgs[i].Header = map[string][]string{"Saga-Step": {"debit"}, "Saga-Transaction": {"0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"}}
	}
	b.ResetTimer()
	for n := 0; n < b.N; n += len(msgs) {
		batch := &pgx.Batch{}
		entries, err := outbox.Queue(batch, msgs...)
		if err != nil {
			b.Fatal(err)
		}
		if err := pool.SendBatch(b.Context(), batch).Close(); err != nil {
			b.Fatal(err)
		}
		r.HandOff(entries...)
	}
	stop() // waits for PubAcks and deletions
	b.StopTimer()
	if st := r.Stats(); st.Errors > 0 || st.Dropped > 0 {
		b.Errorf("%+v", st)
	}
	b.ReportMetric(float64(r.Stats().Published)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkRecover publishes rows that only the poll finds.
func BenchmarkRecover(b *testing.B) {
	pool, s := testdb.New(b, schema), newStream(b, nil)
	for n := 0; n < b.N; n += 1000 {
		insert(b, pool, numbered(s.prefix+".x", 1000)...)
	}
	b.ResetTimer()
	run(b, outbox.Config{Pool: pool, Publisher: s.publish, Grace: time.Millisecond})
	awaitEmpty(b, pool)
}
