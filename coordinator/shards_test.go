package coordinator

import (
	"testing"

	"github.com/google/uuid"
)

// Each shard falls to one coordinator, and each coordinator gets the replies to its own commands.
func TestShardsAreDivided(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 16} {
		for coordinators := 1; coordinators <= 20; coordinators++ {
			var ids []uuid.UUID
			for range coordinators {
				ids = append(ids, uuid.New())
			}
			takers, senders := make([]int, n), make([]int, n)
			for i, me := range ids {
				s := newShards(n)
				s.divide(me, append(append([]uuid.UUID{}, ids[:i]...), ids[i+1:]...))
				senders[s.own()]++
				if !s.takes(s.own()) {
					t.Errorf("one of %d coordinators names a shard of %d that it does not take", coordinators, n)
				}
				for shard := range n {
					if s.takes(shard) {
						takers[shard]++
					}
				}
			}
			for shard := range n {
				if takers[shard] == 0 || coordinators <= n && (takers[shard] > 1 || senders[shard] > 1) {
					t.Errorf("%d of %d coordinators take shard %d of %d, and %d name it", takers[shard], coordinators, shard, n, senders[shard])
				}
			}
		}
	}
}

// Whoever is alone takes everything, and a change of the others is told.
func TestShardsOfOthersThatAreGone(t *testing.T) {
	t.Parallel()
	s := newShards(4)
	me, older := uuid.UUID{2}, uuid.UUID{1}
	s.divide(me, []uuid.UUID{older})
	if len(s.changed) != 1 || s.own() != 1 || s.takes(0) || !s.takes(1) || s.takes(2) || !s.takes(3) {
		t.Errorf("beside an older one: it names %d", s.own())
	}
	<-s.changed
	s.divide(me, []uuid.UUID{older})
	if len(s.changed) != 0 {
		t.Error("a change is told that is none")
	}
	s.divide(me, nil)
	if len(s.changed) != 1 || s.own() != 0 || !s.takes(0) || !s.takes(1) || !s.takes(2) || !s.takes(3) {
		t.Errorf("alone: it names %d", s.own())
	}
}
