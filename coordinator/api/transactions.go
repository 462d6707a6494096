package api

import (
	"context"
	"net/http"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

const (
	headerKey      = "Idempotency-Key"
	headerReplayed = "Idempotent-Replayed"
)

// submit starts a transaction.
func (h *Handler) submit(c *call) error {
	p, err := c.submission()
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	if prefer := readPreferences(c.r); prefer.wait > 0 && h.beginWait() {
		defer h.endWait()
		return h.submitAndWait(ctx, c, p, prefer)
	}
	submitted, err := h.cfg.Coordinator.Submit(ctx, p)
	if err != nil {
		return err
	}
	c.accept(submitted)
	c.write(http.StatusAccepted, submitted.Answer)
	return nil
}

// submission reads a submission.
func (c *call) submission() (coordinator.SubmitParams, error) {
	p := coordinator.SubmitParams{Caller: c.id.caller(), Traceparent: traceparentOf(c.r)}
	if p.Traceparent != "" {
		p.Tracestate = tracestateOf(c.r)
	}
	key, present, err := c.single(headerKey)
	if err != nil {
		return p, err
	}
	if present { // an empty one too: it is a mistake, not a wish to go unprotected
		if err := saga.CheckRequestID(key); err != nil {
			return p, problemIn("invalid_request_id", headerKey, "use 1 to 255 visible ASCII characters without spaces, or leave the header out")
		}
		p.RequestID = key
	}
	p.Body, err = c.body(saga.SubmissionBytesMax)
	return p, err
}

// accept sets the headers of an accepted submission.
func (c *call) accept(s coordinator.Submitted) {
	c.log = c.log.With("transaction", s.ID.String())
	c.w.Header().Set("Location", transactionPath(s.ID.String()))
	if s.Replayed {
		c.w.Header().Set(headerReplayed, "true")
	}
}

// submitAndWait answers with the transaction as it is at its end, or when the time is over. Once it is stored
// nothing makes an error of it: if waiting fails the answer is the stored one.
func (h *Handler) submitAndWait(ctx context.Context, c *call, p coordinator.SubmitParams, prefer preferences) error {
	waitCtx, cancel := c.waitContext(prefer.wait)
	defer cancel()
	submitted, view, err := h.cfg.Coordinator.SubmitAndWait(ctx, waitCtx, p)
	if submitted.ID.IsZero() {
		return err
	}
	c.accept(submitted)
	if err != nil { // the wait may have ended while the transaction was read
		view, err = h.cfg.Coordinator.Get(c.r.Context(), p.Caller, submitted.ID)
	}
	if prefer.minimal {
		view.Steps = nil
	}
	r := newRenderer()
	var body []byte
	if err == nil {
		body, err = r.encode(r.transaction(view))
	}
	if err != nil {
		c.log.Warn("a submission is stored, and waiting for it failed", "error", err)
		c.write(http.StatusAccepted, submitted.Answer)
		return nil
	}
	status := http.StatusAccepted
	if view.Status.Terminal() {
		status = http.StatusOK
	}
	prefer.applied(c.w.Header())
	c.write(status, body)
	return nil
}

// beginWait reports whether one more caller may wait. If so, call endWait later.
func (h *Handler) beginWait() bool {
	if h.waiting.Add(1) <= int64(h.cfg.WaitersMax) {
		return true
	}
	h.waiting.Add(-1)
	return false
}

func (h *Handler) endWait() { h.waiting.Add(-1) }

// waitContext ends when the caller has waited for d or has gone, or when the server shuts down. It gives the
// answer the time that it needs after that.
func (c *call) waitContext(d time.Duration) (context.Context, context.CancelFunc) {
	// Where a connection has no deadlines there is nothing to move; net/http lifts the one for reading itself.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(d + writeTimeout))
	ctx, cancel := context.WithTimeout(c.r.Context(), d)
	stop := context.AfterFunc(c.h.draining, cancel)
	return ctx, func() { stop(); cancel() }
}

// getTransaction answers with a transaction, at its end if the caller wants to wait.
func (h *Handler) getTransaction(c *call) error {
	id, err := c.pathTransaction()
	if err != nil {
		return err
	}
	d, err := c.queryWait()
	if err != nil {
		return err
	}
	c.log = c.log.With("transaction", id.String())
	view, err := h.getOrWait(c, id, d)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", etagOf(view.Version))
	r := newRenderer()
	return c.send(http.StatusOK, r, r.transaction(view))
}

func (h *Handler) getOrWait(c *call, id saga.ID, d time.Duration) (coordinator.View, error) {
	if d == 0 {
		return h.cfg.Coordinator.Get(c.r.Context(), c.id.reader(), id)
	}
	if !h.beginWait() {
		return coordinator.View{}, coordinator.ErrOverloaded
	}
	defer h.endWait()
	ctx, cancel := c.waitContext(d)
	defer cancel()
	return h.cfg.Coordinator.Wait(ctx, c.id.reader(), id)
}

// getAttempts answers with the attempts of a transaction.
func (h *Handler) getAttempts(c *call) error {
	id, err := c.pathTransaction()
	if err != nil {
		return err
	}
	attempts, err := h.cfg.Coordinator.Attempts(c.r.Context(), c.id.reader(), id)
	if err != nil {
		return err
	}
	form := Attempts{Attempts: attemptForms(attempts), Links: Links{"transaction": transactionPath(id.String())}}
	return c.send(http.StatusOK, newRenderer(), form)
}

// findRequest answers with the transaction of a request id (U5).
func (h *Handler) findRequest(c *call) error {
	key := c.query["id"]
	if saga.CheckRequestID(key) != nil {
		return problemIn("invalid_request_id", "id", "give the Idempotency-Key of the submission: 1 to 255 visible ASCII characters")
	}
	view, err := h.cfg.Coordinator.FindByRequest(c.r.Context(), c.id.caller(), key)
	if err != nil {
		return err
	}
	r := newRenderer()
	c.w.Header().Set("Content-Location", transactionPath(view.ID.String()))
	c.w.Header().Set("ETag", etagOf(view.Version))
	return c.send(http.StatusOK, r, r.transaction(view))
}

var statuses = []string{
	string(saga.StatusAccepted), string(saga.StatusRunning), string(saga.StatusConfirming), string(saga.StatusCancelling),
	string(saga.StatusCommitted), string(saga.StatusCancelled), string(saga.StatusResolved),
}

// listTransactions answers with a page of the transactions that the caller may see.
func (h *Handler) listTransactions(c *call) error {
	f, err := c.transactionFilter()
	if err != nil {
		return err
	}
	limit := f.Limit
	f.Limit++ // to see whether there is a next page
	views, err := h.cfg.Coordinator.List(c.r.Context(), c.id.reader(), f)
	if err != nil {
		return err
	}
	r := newRenderer()
	page := Transactions{Transactions: []Transaction{}}
	if len(views) > limit {
		views = views[:limit]
		page.NextCursor = cursorOf(cursorTransactions, views[limit-1].ID)
	}
	for _, v := range views {
		page.Transactions = append(page.Transactions, r.transaction(v))
	}
	return c.send(http.StatusOK, r, page)
}

func (c *call) transactionFilter() (f coordinator.Filter, err error) {
	var status, suspended string
	if status, err = c.queryOneOf("status", statuses); err != nil {
		return f, err
	}
	if f.Definition, err = c.queryName("definition"); err != nil {
		return f, err
	}
	if suspended, err = c.queryOneOf("suspended", []string{"true", "false"}); err != nil {
		return f, err
	}
	if suspended != "" {
		only := suspended == "true"
		f.Suspended = &only
	}
	if f.Limit, err = c.queryLimit(); err != nil {
		return f, err
	}
	f.Status = saga.Status(status)
	f.Before, err = c.queryCursor(cursorTransactions)
	return f, err
}

// cancelTransaction asks to cancel (S2.9): 200 when it is or will be cancelled, 202 while a pivot's outcome is
// being found out.
func (h *Handler) cancelTransaction(c *call) error {
	id, err := c.pathTransaction()
	if err != nil {
		return err
	}
	reason, err := c.reason("cancel")
	if err != nil {
		return err
	}
	c.log = c.log.With("transaction", id.String())
	ctx, cancel := c.bounded()
	defer cancel()
	view, err := h.cfg.Coordinator.Cancel(ctx, c.id.canceller(), id, reason)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if view.Status == saga.StatusRunning {
		status = http.StatusAccepted
	}
	c.w.Header().Set("ETag", etagOf(view.Version))
	r := newRenderer()
	return c.send(status, r, r.transaction(view))
}

const actionBytesMax = 8 << 10

// reason reads the reason of an action's body; no body is no reason.
func (c *call) reason(action string) (string, error) {
	body, err := c.body(actionBytesMax)
	if err != nil || len(body) == 0 {
		return "", err
	}
	var form struct {
		Reason string `json:"reason"`
	}
	if err := saga.UnmarshalStrict(body, action, 1, &form); err != nil {
		return "", err
	}
	return checkReason(form.Reason)
}

// requireReason refuses an action without a reason.
func requireReason(reason string, err error) (string, error) {
	if err == nil && reason == "" {
		err = problemOf(codeMissingReason)
	}
	return reason, err
}
