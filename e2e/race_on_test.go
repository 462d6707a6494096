//go:build race

package e2e

// raceEnabled makes the programs report data races too.
const raceEnabled = true
