package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// inquiryWait is how long a command waits for a participant's answer. What comes later is shown later.
const (
	inquiryWait = 3 * time.Second
	inquiryLook = 50 * time.Millisecond
)

// inquire asks about a dead letter, and returns it as it is once the participant has answered or the time is over.
func (r *remote) inquire(ctx context.Context, id uuid.UUID) (client.DeadLetterDetail, error) {
	asked := r.client.Inquire(ctx, id)
	waiting, cancel := context.WithTimeout(ctx, inquiryWait)
	defer cancel()
	for {
		d, err := r.client.DeadLetter(ctx, id)
		if err != nil || asked != nil {
			return d, err
		}
		answered := d.Inquiry != nil && !d.Inquiry.AnsweredAt.IsZero()
		if answered || d.Status != saga.DeadLetterOpen || !pause(waiting, inquiryLook) {
			return d, ctx.Err()
		}
	}
}

// inquireGroup asks about the dead letters that a group shows, and waits until all have answered or the time is over.
func (r *remote) inquireGroup(ctx context.Context, fingerprint string) error {
	if err := r.client.InquireGroup(ctx, fingerprint); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, inquiryWait)
	defer cancel()
	for {
		d, err := r.client.Group(ctx, fingerprint)
		if err != nil {
			return err
		}
		silent := 0
		for i := range d.Sample {
			if q := d.Sample[i].Inquiry; q != nil && q.AnsweredAt.IsZero() {
				silent++
			}
		}
		if silent == 0 || !pause(waiting, 4*inquiryLook) {
			return ctx.Err()
		}
	}
}

// inquiryText says what a participant said.
func inquiryText(q *client.Inquiry) string {
	switch {
	case q == nil:
		return "not asked; ask with --inquire"
	case q.AnsweredAt.IsZero():
		return "asked at " + timeText(q.AskedAt) + ", no answer, which proves nothing"
	}
	text := string(q.Outcome)
	if q.State != "" {
		text = string(q.State)
	}
	text += optional(" ", q.Code) + optional(": ", q.Reason)
	if q.SameContent != nil {
		text += ", same content: " + strconv.FormatBool(*q.SameContent)
	}
	return fmt.Sprintf("%s, answered at %s", text, timeText(q.AnsweredAt))
}

// predictionText says what a replay would do.
func predictionText(p client.Prediction) string {
	return string(p.Effect) + optional(": ", p.Reason)
}
