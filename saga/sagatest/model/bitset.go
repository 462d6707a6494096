package model

import "math/bits"

// repliesMax is how many kinds of replies a step can have.
const repliesMax = 128

// bitset is a set of the replies of a step.
type bitset [repliesMax / 64]uint64

func (b *bitset) add(i int) { b[i/64] |= 1 << (i % 64) }

func (b *bitset) remove(i int) { b[i/64] &^= 1 << (i % 64) }

func (b *bitset) addAll(c bitset) {
	for w := range b {
		b[w] |= c[w]
	}
}

// each yields the members, from the lowest.
func (b bitset) each(yield func(int) bool) {
	for w, rest := range b {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(64*w + bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}
