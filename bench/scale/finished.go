package main

import (
	"context"
	"fmt"
)

// What ten million finished transactions may cost those that run (P6).
const (
	finishedRateMin = 0.95
	finishedP99Max  = 1.1
)

// finished compares a coordinator whose tables hold many finished transactions with one whose tables hold none.
func (st *stand) finished(ctx context.Context, r *report) error {
	empty, err := st.newSite(ctx, "empty")
	if err != nil {
		return err
	}
	loaded, err := st.newSite(ctx, "loaded")
	if err != nil {
		return err
	}
	if err := loaded.fill(ctx, st.cfg.rows); err != nil {
		return err
	}
	for _, s := range []*site{empty, loaded} {
		if err := s.startNodes(ctx, 1); err != nil {
			return err
		}
	}
	labels := map[*site]string{empty: "empty", loaded: grouped(st.cfg.rows) + " finished"}
	for _, clients := range st.cfg.clients {
		with, without := side{label: labels[loaded]}, side{label: labels[empty]}
		for pair := range st.cfg.pairs {
			st.say("p6, pair %d of %d", pair+1, st.cfg.pairs)
			order := []*site{empty, loaded}
			if pair%2 == 1 {
				order = []*site{loaded, empty}
			}
			for _, s := range order {
				row, err := s.load(ctx, labels[s], clients)
				if err != nil {
					return err
				}
				if s == loaded {
					with.rows = append(with.rows, row)
				} else {
					without.rows = append(without.rows, row)
				}
			}
		}
		what := fmt.Sprintf("noop, %d clients", clients)
		r.add(
			compare("P6", what, metricRate, with, without).atLeast(finishedRateMin),
			compare("P6", what, metricP99, with, without).atMost(finishedP99Max),
			compare("P6", what, metricWAL, with, without),
		)
	}
	if err := loaded.checkFilled(ctx, st.cfg.rows); err != nil {
		return fmt.Errorf("after the measurements: %w", err)
	}
	return st.close(empty, loaded) // what is measured next is to have the machine
}

// close stops the coordinators of sites.
func (st *stand) close(sites ...*site) error {
	for _, s := range sites {
		if err := s.stopNodes(); err != nil {
			return err
		}
	}
	return nil
}
