// Command cmd explores definitions with the model and prints a line for each: the long part, beside what the tests of the
// package do. It ends with status 1 if a rule is broken, after printing the shortest way there.
//
//	go run ./saga/sagatest/model/cmd                 every definition of 3 steps
//	go run ./saga/sagatest/model/cmd -attempts 2     the same, with operations that fail twice: six times as long
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/sagatest/model"
)

func main() {
	c := command{workers: runtime.GOMAXPROCS(0)}
	flag.IntVar(&c.steps, "steps", 3, "steps of each definition: 1, 2 or 3")
	flag.IntVar(&c.attempts, "attempts", 1, "attempts of an operation that count before it is exhausted: 1 or 2")
	flag.StringVar(&c.only, "only", "", "the title of one definition, as it is printed")
	flag.BoolVar(&c.opt.Inquiries, "inquiries", false, "with answers to inquire")
	flag.BoolVar(&c.opt.LocalTransactions, "local-transactions", false, "with local transactions that are under way")
	flag.BoolVar(&c.opt.External.On, "external", false, "with external effects and their leases")
	flag.BoolVar(&c.opt.External.Inquire, "inquire", false, "with -external: downstream can be asked")
	flag.BoolVar(&c.opt.External.Idempotent, "idempotent", false, "with -external: downstream executes a key once")
	flag.IntVar(&c.opt.StatesMax, "states-max", 0, "leave a definition unfinished after so many states; 0 for never")
	flag.IntVar(&c.workers, "workers", c.workers, "definitions at a time")
	flag.Parse()
	debug.SetGCPercent(400) // the states are kept anyway
	if !c.run() {
		os.Exit(1)
	}
}

type command struct {
	steps, attempts int
	only            string
	workers         int
	opt             model.Options

	mu       sync.Mutex
	terminal bool
	began    time.Time
	done, of int
	total    model.Report
	left     int // definitions that were not finished
	ok       bool
}

// run explores every definition, and reports whether all rules hold.
func (c *command) run() bool {
	c.terminal = term.IsTerminal(int(os.Stderr.Fd()))
	c.ok, c.began = true, now()
	defs := c.definitions()
	c.of = len(defs)
	next := make(chan *saga.Definition)
	var workers sync.WaitGroup
	for range max(c.workers, 1) {
		workers.Go(func() {
			for def := range next {
				c.explore(def)
			}
		})
	}
	for _, def := range defs {
		next <- def
	}
	close(next)
	workers.Wait()
	fmt.Printf("%-60s %11d states %12d transitions %10d calls of Step %17.1f s, %d definitions", "total",
		c.total.States, c.total.Transitions, c.total.StepCalls, now().Sub(c.began).Seconds(), c.done)
	if c.left > 0 {
		fmt.Printf(", %d of them not finished", c.left)
	}
	fmt.Println()
	return c.ok && c.done > 0
}

// definitions lists what to explore. The policy matters only where there is a try that it is about.
func (c *command) definitions() []*saga.Definition {
	var defs []*saga.Definition
	seen := map[string]bool{}
	for _, policy := range []saga.ExhaustionPolicy{saga.OnExhaustedCancel, saga.OnExhaustedDeadLetter} {
		for _, def := range model.Definitions(c.steps, policy, c.attempts) {
			title := model.Title(def)
			if !seen[title] && (c.only == "" || c.only == title) {
				seen[title] = true
				defs = append(defs, def)
			}
		}
	}
	return defs
}

// explore explores a definition and prints its line.
func (c *command) explore(def *saga.Definition) {
	opt, began := c.opt, now()
	opt.Progress = func(r model.Report) { c.progress(model.Title(def), r) }
	r := model.New(def, opt).Explore()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	c.total.States += r.States
	c.total.Transitions += r.Transitions
	c.total.StepCalls += r.StepCalls
	c.clear()
	fmt.Printf("%-60s %11d states %12d transitions %10d calls of Step  depth %2d %7.1f s", model.Title(def),
		r.States, r.Transitions, r.StepCalls, r.Depth, now().Sub(began).Seconds())
	switch {
	case r.Violation != nil:
		c.ok = false
		fmt.Printf("  BROKEN\n%s", r.Violation)
	case !r.Complete:
		c.left++
		fmt.Println("  not finished")
	default:
		fmt.Println()
	}
}

// progress shows how far a definition has come, if somebody looks on.
func (c *command) progress(title string, r model.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terminal {
		c.clear()
		fmt.Fprintf(os.Stderr, "%d of %d, %.0f s; %s: %d states, depth %d", c.done, c.of, now().Sub(c.began).Seconds(), title, r.States, r.Depth)
	}
}

// clear removes the line that progress has written.
func (c *command) clear() {
	if c.terminal {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

// now is for the seconds that are printed.
func now() time.Time {
	return time.Now() //nolint:forbidigo // no state depends on it
}
