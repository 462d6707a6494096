// Package bench measures the speed of a coordinator: a closed loop of clients, the latencies they see, and
// what a transaction costs in CPU seconds, commits, statements and WAL. It prints figures and asserts none.
package bench
