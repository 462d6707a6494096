package main

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows how far something is: with a bar on a terminal, else with a line when it begins.
type progress struct {
	w    io.Writer
	bars *mpb.Progress // nil where there is no terminal
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if isTerminal(w) {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(progressColumns))
	}
	return p
}

const (
	progressColumns  = 60
	progressInterval = 100 * time.Millisecond
)

// begin shows that something begins that takes so long. The returned function ends it.
func (p *progress) begin(label string, duration time.Duration) (end func()) {
	if p.bars == nil {
		fmt.Fprintf(p.w, "coordinator: %s\n", label)
		return func() {}
	}
	bar := p.bars.AddBar(duration.Milliseconds(), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(label+" ")), mpb.AppendDecorators(decor.Percentage()))
	started, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				bar.SetCurrent(min(time.Since(started).Milliseconds(), duration.Milliseconds()-1))
			case <-stop:
				bar.Abort(true)
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// close removes what is shown.
func (p *progress) close() {
	if p.bars != nil {
		p.bars.Shutdown()
	}
}
