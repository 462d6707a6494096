package outage

import (
	"fmt"
	"slices"
	"strings"
)

// Places in the plot, in pixels.
const (
	plotWidth   = 860
	plotLeft    = 64  // of the axis of commands
	plotRight   = 846 // of the last second
	legendTop   = 22
	panelsTop   = 48
	panelHeight = 118 // of the curves
	panelStep   = 168 // from one panel to the next
	titleHeight = 24
	ticksMax    = 10
)

// style is for light and for dark pages alike: an image gets no colours from the page around it.
const style = `
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .quiet { fill: #57606a }
  .sheet { fill: #ffffff } .down { fill: #f0d9d5 } .axis { stroke: #8c959f } .grid { stroke: #d8dee4 }
  .sent { stroke: #b3261e } .fetched { stroke: #0969da } .ceiling { stroke: #1a7f37; stroke-dasharray: 6 4 }
  .curve { fill: none; stroke-width: 1.75; stroke-linejoin: round }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #9198a1 }
    .sheet { fill: #0d1117 } .down { fill: #442421 } .axis { stroke: #656c76 } .grid { stroke: #2a3038 }
    .sent { stroke: #ff7b72 } .fetched { stroke: #58a6ff } .ceiling { stroke: #3fb950 }
  }
`

// SVG returns the plot: a panel for each strategy, all with the same axes, so that they can be compared by looking.
func (r *Report) SVG() []byte {
	p := plot{}
	for i := range r.Runs {
		run := &r.Runs[i]
		p.seconds = max(p.seconds, len(run.Sent))
		for _, windows := range [][]int{run.Sent, run.Fetched, run.Ceilings} {
			if len(windows) > 0 {
				p.most = max(p.most, slices.Max(windows))
			}
		}
	}
	p.secondStep, p.countStep = step(p.seconds, ticksMax), step(p.most, 4)
	p.most = (p.most/p.countStep + 1) * p.countStep
	height := panelsTop + panelStep*len(r.Runs) + 16
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", plotWidth, height, plotWidth, height)
	p.printf("<title>Commands per second to a participant that is down for %d s, by strategy of retries</title>\n<style>%s</style>\n", r.OutageS, style)
	p.printf(`<rect class="sheet" width="%d" height="%d"/>`+"\n", plotWidth, height)
	p.legend()
	for i := range r.Runs {
		p.panel(&r.Runs[i], panelsTop+panelStep*i)
	}
	p.printf("</svg>\n")
	return []byte(p.String())
}

// plot is being drawn. Its scales are those of all panels.
type plot struct {
	strings.Builder
	seconds, most         int // that the axes reach
	secondStep, countStep int // between their ticks
}

func (p *plot) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *plot) x(second float64) float64 {
	return plotLeft + second*(plotRight-plotLeft)/float64(max(1, p.seconds))
}

// y is below the top of a panel's curves.
func (p *plot) y(count int) float64 {
	return panelHeight - float64(count)*panelHeight/float64(max(1, p.most))
}

func (p *plot) legend() {
	x := plotLeft
	for _, entry := range []struct{ class, text string }{
		{"sent", "commands sent to the participant, per second"}, {"fetched", "commands that it fetched"}, {"ceiling", "ceiling"},
	} {
		p.printf(`<path class="curve %s" d="M%d %dh24"/><text x="%d" y="%d">%s</text>`+"\n", entry.class, x, legendTop-4, x+30, legendTop, entry.text)
		x += 50 + 7*len(entry.text)
	}
	p.printf(`<rect class="down" x="%d" y="%d" width="24" height="12"/><text x="%d" y="%d">it is down</text>`+"\n", x, legendTop-10, x+30, legendTop)
}

// panel draws one run below a height.
func (p *plot) panel(r *Run, top int) {
	title := r.Retries + ", unprotected"
	if r.Protected {
		title = r.Retries + ", with budget, breaker and ceiling"
	}
	p.printf(`<text class="title" x="%d" y="%d">%s</text>`+"\n", plotLeft, top+12, escape(title))
	top += titleHeight
	p.printf(`<g transform="translate(0 %d)">`+"\n", top)
	p.printf(`<rect class="down" x="%.1f" y="0" width="%.1f" height="%d"/>`+"\n", p.x(r.StoppedS), p.x(r.BackS)-p.x(r.StoppedS), panelHeight)
	for n := 0; n <= p.most; n += p.countStep {
		p.printf(`<path class="grid" d="M%d %.1fH%d"/><text class="quiet" x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n",
			plotLeft, p.y(n), plotRight, plotLeft-8, p.y(n)+4, n)
	}
	for s := 0; s <= p.seconds; s += p.secondStep {
		p.printf(`<path class="axis" d="M%.1f %dv4"/><text class="quiet" x="%.1f" y="%d" text-anchor="middle">%d s</text>`+"\n",
			p.x(float64(s)), panelHeight, p.x(float64(s)), panelHeight+17, s)
	}
	p.printf(`<path class="axis" d="M%d 0V%dH%d" fill="none"/>`+"\n", plotLeft, panelHeight, plotRight)
	p.curve("ceiling", r.Ceilings, int(r.StoppedS))
	p.curve("fetched", r.Fetched, 0)
	p.curve("sent", r.Sent, 0)
	p.printf("</g>\n")
}

// curve draws windows in the middle of their seconds, those from a second on.
func (p *plot) curve(class string, windows []int, from int) {
	if len(windows) <= from {
		return
	}
	p.printf(`<path class="curve %s" d="`, class)
	letter := "M"
	for s := from; s < len(windows); s++ {
		p.printf("%s%.1f %.1f", letter, p.x(float64(s)+0.5), p.y(windows[s]))
		letter = "L"
	}
	p.printf(`"/>` + "\n")
}

// step returns a round distance, 1, 2 or 5 times a power of ten, so that at most so many fit.
func step(size, ticks int) int {
	for power := 1; ; power *= 10 {
		for _, factor := range []int{1, 2, 5} {
			if factor*power*ticks >= size {
				return factor * power
			}
		}
	}
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
