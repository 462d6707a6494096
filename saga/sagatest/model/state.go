package model

// state is everything: the stored row, the participants with the replies in the network, and what a second
// coordinator remembers. All of it are numbers of interned parts, so that a state is small and comparable.
type state struct {
	row    uint32
	locals [stepsMax]uint32
	extra  uint32 // see the methods
}

// The parts of extra, from below: the clock is past the deadline; the operations whose commands were published; and
// the row that the second coordinator has in its cache, plus one, if that is not the stored one.
const (
	lateBit        = 1
	publishedBits  = 2 * stepsMax
	publishedShift = 1
	cachedShift    = publishedShift + publishedBits
)

func (s state) late() bool { return s.extra&lateBit != 0 }

func (s state) published() uint32 { return s.extra >> publishedShift & (1<<publishedBits - 1) }

// cached returns the older row that the second coordinator has, if it has one.
func (s state) cached() (row uint32, ok bool) {
	c := s.extra >> cachedShift
	return c - 1, c != 0
}

// withCached returns the state in which the second coordinator has that row in its cache.
func (s state) withCached(row uint32) state {
	s = s.withoutCached()
	s.extra |= (row + 1) << cachedShift
	return s
}

func (s state) withoutCached() state {
	s.extra &= 1<<cachedShift - 1
	return s
}

func (s state) hash() uint64 {
	const k = 0x9e3779b97f4a7c15
	h := uint64(s.row)<<32 | uint64(s.extra)
	h = (h ^ h>>29) * k
	h ^= uint64(s.locals[0])<<40 ^ uint64(s.locals[1])<<20 ^ uint64(s.locals[2])
	h = (h ^ h>>32) * k
	h = (h ^ h>>29) * k
	return h ^ h>>32
}

// index finds states in a slice of them: open addressing, whole states are compared, so that nothing is lost to
// hashes that collide.
type index struct {
	table []uint32 // number of the state plus one
	used  int
}

// add appends the state to states unless it is there.
func (x *index) add(states *[]state, s state) (fresh bool) {
	if x.used*3 >= len(x.table)*2 {
		x.grow(*states)
	}
	mask := uint64(len(x.table) - 1)
	for at := s.hash() & mask; ; at = (at + 1) & mask {
		n := x.table[at]
		if n == 0 {
			*states = append(*states, s)
			x.table[at] = uint32(len(*states))
			x.used++
			return true
		}
		if (*states)[n-1] == s {
			return false
		}
	}
}

func (x *index) grow(states []state) {
	x.table = make([]uint32, max(1<<12, 2*len(x.table)))
	mask := uint64(len(x.table) - 1)
	for i, s := range states {
		at := s.hash() & mask
		for x.table[at] != 0 {
			at = (at + 1) & mask
		}
		x.table[at] = uint32(i + 1)
	}
}
