package api

import (
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

var deadLetterStatuses = []string{
	string(saga.DeadLetterOpen), string(saga.DeadLetterReplaying), string(saga.DeadLetterClosed),
	string(saga.DeadLetterObsolete), string(saga.DeadLetterDiscarded),
}

// listDeadLetters answers with a page of dead letters.
func (h *Handler) listDeadLetters(c *call) error {
	f, err := c.deadLetterFilter()
	if err != nil {
		return err
	}
	limit := f.Limit
	f.Limit++ // to see whether there is a next page
	letters, err := h.cfg.Admin.DeadLetters(c.r.Context(), f)
	if err != nil {
		return err
	}
	page := DeadLetters{DeadLetters: []DeadLetter{}}
	if len(letters) > limit {
		letters = letters[:limit]
		page.NextCursor = cursorOf(cursorDeadLetters, letters[limit-1].ID)
	}
	for i := range letters {
		page.DeadLetters = append(page.DeadLetters, deadLetterForm(&letters[i]))
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

func (c *call) deadLetterFilter() (f dlq.Filter, err error) {
	var status string
	if status, err = c.queryOneOf("status", deadLetterStatuses); err != nil {
		return f, err
	}
	f.Status = saga.DeadLetterStatus(status)
	if f.Participant, err = c.queryName("participant"); err != nil {
		return f, err
	}
	if f.Cause, err = c.queryName("cause"); err != nil {
		return f, err
	}
	if v, ok := c.query["transaction"]; ok {
		if f.TransactionID, err = saga.ParseID(v); err != nil {
			return f, problemIn(codeInvalidQuery, "transaction", "use the id of a transaction")
		}
	}
	if v, ok := c.query["fingerprint"]; ok {
		if !checkFingerprint(v) {
			return f, problemIn(codeInvalidQuery, "fingerprint", "use the fingerprint of a dead letter: 16 hexadecimal digits")
		}
		f.Fingerprint = v
	}
	f.Tenant = c.id.scope()
	if f.Limit, err = c.queryLimit(); err != nil {
		return f, err
	}
	before, err := c.queryCursor(cursorDeadLetters)
	f.Before = uuid.UUID(before)
	return f, err
}

func etagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// getDeadLetter answers with a dead letter and all that is known about it (D1).
func (h *Handler) getDeadLetter(c *call) error {
	id, err := c.pathUUID("a dead letter")
	if err != nil {
		return err
	}
	detail, err := h.cfg.Admin.DeadLetter(c.r.Context(), id)
	if err != nil {
		return err
	}
	if !c.id.covers(detail.Tenant) {
		return dlq.ErrNotFound
	}
	c.w.Header().Set("ETag", etagOf(detail.Version))
	r := newRenderer()
	return c.send(http.StatusOK, r, r.deadLetterDetail(&detail))
}

// decision reads what every action of an operator needs: the version that was seen, and the reason.
func (c *call) decision(action string) (version int64, reason string, err error) {
	if version, err = c.ifMatch(); err != nil {
		return 0, "", err
	}
	reason, err = requireReason(c.reason(action))
	return version, reason, err
}

// letterParams reads an action on the dead letter of the path.
func (c *call) letterParams(action string) (coordinator.LetterParams, error) {
	p := coordinator.LetterParams{Actor: c.id.Actor, Tenant: c.id.scope()}
	var err error
	if p.DeadLetter, err = c.pathUUID("a dead letter"); err != nil {
		return p, err
	}
	p.Version, p.Reason, err = c.decision(action)
	return p, err
}

// replayDeadLetter sends a dead letter's operation again (D2).
func (h *Handler) replayDeadLetter(c *call) error {
	p, err := c.replayParams()
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	if err := h.cfg.Admin.Replay(ctx, p); err != nil {
		return err
	}
	id := p.DeadLetter.String()
	c.log.Info("a dead letter is replayed", "dead_letter", id, "actor", p.Actor)
	return c.send(http.StatusAccepted, newRenderer(), Replaying{ID: id, Links: Links{"self": deadLetterPath(id)}})
}

// discardDeadLetter gives a dead letter up (S2.13).
func (h *Handler) discardDeadLetter(c *call) error {
	p, err := c.letterParams("discard")
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	view, err := h.cfg.Admin.Discard(ctx, p)
	if err != nil {
		return err
	}
	id := p.DeadLetter.String()
	c.log.Info("a dead letter is discarded", "dead_letter", id, "actor", p.Actor)
	r := newRenderer()
	form := Discarded{ID: id, Links: Links{"self": deadLetterPath(id)}}
	if view != nil {
		t := r.transaction(*view)
		form.Transaction, form.Links["transaction"] = &t, t.Links["self"]
	}
	return c.send(http.StatusOK, r, form)
}

// resolveTransaction gives up all dead letters of a transaction (S2.13).
func (h *Handler) resolveTransaction(c *call) error {
	p := coordinator.ResolveParams{Actor: c.id.Actor, Tenant: c.id.scope()}
	var err error
	if p.Transaction, err = c.pathTransaction(); err != nil {
		return err
	}
	if p.Version, p.Reason, err = c.decision("resolve"); err != nil {
		return err
	}
	c.log = c.log.With("transaction", p.Transaction.String())
	ctx, cancel := c.bounded()
	defer cancel()
	view, err := h.cfg.Admin.Resolve(ctx, p)
	if err != nil {
		return err
	}
	c.log.Info("a transaction is resolved", "actor", p.Actor, "status", string(view.Status))
	r := newRenderer()
	c.w.Header().Set("ETag", etagOf(view.Version))
	return c.send(http.StatusOK, r, r.transaction(view))
}
