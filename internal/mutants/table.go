package main

import "slices"

// table returns all mutants, from the pure core outwards.
func table() []mutant {
	return slices.Concat(admission(), transitions(), silences(), merging(), operators(), edits(), messages(), barrier(), effects(), participants(),
		versions(), order(), identity(), letters(), relay(), doors())
}
