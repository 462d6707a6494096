package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
)

// Server-sent events (HTML, section 9.2). An event is the transaction as it is, and its id the version.

const (
	headerLastEvent = "Last-Event-ID"
	mediaEvents     = "text/event-stream"

	streamHeartbeat    = 15 * time.Second // of silence, after which a comment says that the stream is alive
	streamWriteTimeout = 10 * time.Second // for one event: who reads more slowly is dropped
	streamTimeMax      = 15 * time.Minute // after which the caller asks again, and so shows its credential again
	streamRetryMS      = 1000             // that a caller waits before it does

	eventChanged = "changed"
	eventEnded   = "ended"
)

// watchTransaction sends the transaction as it is, and again each time it has changed, until it has ended.
func (h *Handler) watchTransaction(c *call) error {
	id, err := c.pathTransaction()
	if err != nil {
		return err
	}
	after, err := c.lastEventID()
	if err != nil {
		return err
	}
	c.log = c.log.With("transaction", id.String())
	if h.streams.Add(1) > int64(h.cfg.StreamsMax) {
		h.streams.Add(-1)
		return coordinator.ErrOverloaded
	}
	defer h.streams.Add(-1)
	ctx, cancel := context.WithTimeout(c.r.Context(), streamTimeMax)
	defer cancel()
	defer context.AfterFunc(h.draining, cancel)()
	watch := h.cfg.Coordinator.Watch(c.id.reader(), id)
	defer watch.Close()
	view, err := watch.Next(ctx)
	switch {
	case errors.Is(err, context.Canceled):
		return problemOf(codeUnavailable) // the server is stopping
	case err != nil:
		return err
	case view.Status.Terminal() && view.Version <= after:
		c.w.WriteHeader(http.StatusNoContent) // tells an EventSource not to come back
		return nil
	}
	s := stream{c: c, control: http.NewResponseController(c.w)}
	if err := s.follow(ctx, watch, view, after); err != nil {
		c.log.Debug("a stream of events ends early", "error", err) // the caller comes back, or has gone
	}
	return nil
}

// lastEventID reads the version that the caller has seen; zero if it has seen none.
func (c *call) lastEventID() (int64, error) {
	v, present, err := c.single(headerLastEvent)
	if err != nil || !present || v == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, problemIn("invalid_value", headerLastEvent, "send the id of the last event as it was, or leave the header out")
	}
	return n, nil
}

// stream writes events.
type stream struct {
	c       *call
	control *http.ResponseController
}

// follow sends what the caller has not seen yet, until the transaction has ended.
func (s *stream) follow(ctx context.Context, watch coordinator.Watcher, view coordinator.View, after int64) error {
	header := s.c.w.Header()
	header.Set("Content-Type", mediaEvents)
	header.Set("X-Accel-Buffering", "no") // proxies that keep answers back would keep events back
	s.c.w.WriteHeader(http.StatusOK)
	if err := s.write(fmt.Appendf(nil, "retry: %d\n\n", streamRetryMS)); err != nil || s.c.r.Method == http.MethodHead {
		return err
	}
	for {
		if view.Version > after {
			if err := s.send(view); err != nil {
				return err
			}
		}
		if view.Status.Terminal() {
			return nil
		}
		var err error
		if view, err = s.next(ctx, watch); err != nil {
			return err
		}
	}
}

// next waits for the next change, with heartbeats.
func (s *stream) next(ctx context.Context, watch coordinator.Watcher) (coordinator.View, error) {
	for {
		beat, cancel := context.WithTimeout(ctx, s.c.h.cfg.Heartbeat)
		view, err := watch.Next(beat)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return view, err
		}
		if err := s.write([]byte(":\n\n")); err != nil {
			return view, err
		}
	}
}

// send writes one event. Line breaks between the members of users' JSON become line feeds: the format has lines.
func (s *stream) send(view coordinator.View) error {
	r := newRenderer()
	body, err := r.encode(r.transaction(view))
	if err != nil {
		return err
	}
	kind := eventChanged
	if view.Status.Terminal() {
		kind = eventEnded
	}
	out := fmt.Appendf(nil, "id: %d\nevent: %s\n", view.Version, kind)
	body = bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		out = append(append(append(out, "data: "...), line...), '\n')
	}
	return s.write(append(out, '\n'))
}

func (s *stream) write(b []byte) error {
	// Where a connection has no deadlines there is nothing to set.
	_ = s.control.SetWriteDeadline(time.Now().Add(s.c.h.cfg.StreamWriteTimeout))
	if _, err := s.c.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}
