package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

const (
	// streamSilence is after which time without even a heartbeat a stream is given up: it has one every 15 s.
	streamSilence = 45 * time.Second
	// watchPoll is the time between two looks where there are no streams.
	watchPoll = 300 * time.Millisecond

	codeNoRoute = "no_such_route"
)

// Watch follows the transaction: it yields it as it is, and again each time it has changed, until it has ended. Versions
// only grow, and those between are left out when there are many. A stream that breaks is begun again where it was; where
// there are none, because the coordinator is older or has too many, Watch asks again and again. It ends with an error
// that a repetition would not change, or when ctx ends, which is an error too.
func (c *Client) Watch(ctx context.Context, id saga.ID) iter.Seq2[Transaction, error] {
	return func(yield func(Transaction, error) bool) {
		w := watch{c: c, id: id, version: -1, yield: yield}
		var failing time.Time
		for failures := 0; ; {
			before := w.version
			wait, err := w.once(ctx)
			if w.ended {
				return
			}
			if ctx.Err() != nil {
				yield(Transaction{}, fmt.Errorf("sagacity: transaction %s has not ended: %w", id, context.Cause(ctx)))
				return
			}
			if err == nil || w.version > before {
				failures, failing = 0, time.Now()
			}
			if err != nil {
				if failures++; failing.IsZero() {
					failing = time.Now()
				}
				if read := (request{}); !read.worthRepeating(err) || time.Since(failing) > c.options.RetryTime {
					yield(Transaction{}, err)
					return
				}
				wait = max(backoff(failures), retryAfter(err))
			}
			_ = pause(ctx, wait) // the next attempt finds ctx at its end
		}
	}
}

// watch is one Watch.
type watch struct {
	c       *Client
	id      saga.ID
	version int64 // the last that was yielded
	yield   func(Transaction, error) bool
	ended   bool
	polls   bool // there are no streams
}

// once follows the transaction for as long as a stream lasts, or looks at it once, and returns how long to wait before
// the next time.
func (w *watch) once(ctx context.Context) (time.Duration, error) {
	if !w.polls {
		err := w.stream(ctx)
		var p *Problem
		if !errors.As(err, &p) || p.Code != codeNoRoute && p.Code != CodeOverloaded {
			return backoffBase, err
		}
		w.polls = true
	}
	tx, err := w.c.Get(ctx, w.id)
	if err != nil {
		return 0, err
	}
	w.see(tx)
	return watchPoll, nil
}

// see yields what is new.
func (w *watch) see(tx Transaction) {
	if tx.Version > w.version && !w.ended {
		w.version = tx.Version
		w.ended = !w.yield(tx, nil)
	}
	w.ended = w.ended || tx.Status.Terminal()
}

// stream reads one stream to its end.
func (w *watch) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(streamSilence, cancel)
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.c.base+transactionPath(w.id)+"/events", http.NoBody)
	if err != nil {
		return &UnknownError{Err: err}
	}
	req.Header.Set("Accept", "text/event-stream, application/problem+json")
	if w.version >= 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(w.version, 10))
	}
	if w.c.options.Token != "" {
		req.Header.Set("Authorization", "Bearer "+w.c.options.Token)
	}
	resp, err := w.c.http.Do(req)
	if err != nil {
		return &UnknownError{Err: err}
	}
	switch {
	case resp.StatusCode == http.StatusNoContent:
		w.ended = true
		return resp.Body.Close()
	case resp.StatusCode != http.StatusOK:
		a, err := readAnswer(resp)
		if err == nil {
			err = problemOf(a)
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return w.read(resp, func() { silence.Reset(streamSilence) })
}

// read yields the events of a stream. A stream that breaks is no error: it is begun again.
func (w *watch) read(resp *http.Response, alive func()) error {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), answerBytesMax)
	var data []byte
	for lines.Scan() && !w.ended {
		alive()
		line := lines.Bytes()
		if more, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = append(append(data, bytes.TrimPrefix(more, []byte(" "))...), '\n'); len(data) > answerBytesMax {
				return fmt.Errorf("sagacity: an event has more than %d bytes", answerBytesMax)
			}
			continue
		}
		if len(line) > 0 || len(data) == 0 {
			continue // a field that says nothing new, or a comment
		}
		var tx Transaction
		if err := json.Unmarshal(data, &tx); err != nil {
			return fmt.Errorf("sagacity: an event of transaction %s cannot be read: %w", w.id, err)
		}
		data = data[:0]
		w.see(tx)
	}
	return nil
}
