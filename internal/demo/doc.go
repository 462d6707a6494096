// Package demo runs the scenarios that show what the product is for, on a running coordinator with the bank's
// two participants: what is expected, what was got, and how long it took. They are a demonstration and a
// check at once: with a safeguard taken out of the participants, the matching rows come out wrong.
package demo
