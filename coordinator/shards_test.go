package coordinator

import (
	"testing"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Every shard falls to exactly one coordinator while there are enough of them, and everybody has some.
func TestShardsAreDivided(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 16} {
		for coordinators := 1; coordinators <= 20; coordinators++ {
			var ids []uuid.UUID
			for range coordinators {
				ids = append(ids, uuid.New())
			}
			owners := make([]int, n)
			for i, me := range ids {
				s := newShards(n)
				s.divide(me, append(append([]uuid.UUID{}, ids[:i]...), ids[i+1:]...))
				some := false
				for shard, own := range *s.own.Load() {
					if own {
						owners[shard]++
						some = true
					}
				}
				if !some {
					t.Errorf("one of %d coordinators has none of %d shards", coordinators, n)
				}
			}
			for shard, owned := range owners {
				if owned == 0 || owned > 1 && coordinators <= n {
					t.Errorf("shard %d of %d falls to %d of %d coordinators", shard, n, owned, coordinators)
				}
			}
		}
	}
}

func TestTransactionsBeginInOwnShards(t *testing.T) {
	t.Parallel()
	s := newShards(16)
	me, other := uuid.UUID{1}, uuid.UUID{2}
	s.divide(me, []uuid.UUID{other})
	for range 200 {
		id, err := s.newID()
		if err != nil {
			t.Fatal(err)
		}
		if shard := wire.Shard(id, 16); shard >= 8 {
			t.Fatalf("%s is of shard %d", id, shard)
		}
	}
	s.divide(other, []uuid.UUID{me})
	if len(s.changed) != 1 {
		t.Error("a change of the shards is not told")
	}
}
