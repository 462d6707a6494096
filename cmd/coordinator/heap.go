package main

import "os"

// heapFloor is memory that is reserved and never touched, so it takes no place. The collector counts it: it lets the heap
// grow by as much before it runs again. Without it a coordinator, most of whose memory lives for milliseconds, would be
// collecting all the time; a heap that is large anyhow is hardly affected.
var heapFloor []byte //nolint:unused // it is kept, not read

const heapFloorBytes = 64 << 20

// reserveHeap sets the floor, unless the operator has set the collector.
func reserveHeap() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		heapFloor = make([]byte, heapFloorBytes)
	}
}
