package api

import (
	"context"
	"net/http"
	"time"
)

const readyTimeout = 2 * time.Second

// healthz says that the process answers. It asks nobody else: a restart would not repair a database.
func (h *Handler) healthz(c *call) error {
	return c.send(http.StatusOK, newRenderer(), Health{Status: "ok"})
}

// readyz says whether requests can be served.
func (h *Handler) readyz(c *call) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), readyTimeout)
	defer cancel()
	if err := h.cfg.Ready(ctx); err != nil {
		c.log.Warn("not ready", "error", err)
		return problemOf(codeNotReady)
	}
	if h.draining.Err() != nil {
		return problemOf(codeNotReady)
	}
	return c.send(http.StatusOK, newRenderer(), Health{Status: "ready"})
}

func (h *Handler) document(c *call) error {
	c.write(http.StatusOK, h.spec)
	return nil
}
