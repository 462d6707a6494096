package api

import (
	"net/http"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
)

// Explanation says in sentences what a transaction does, why it waits, what happens next and what can be done.
type Explanation struct {
	ID        string     `json:"id" format:"uuid" doc:"the transaction"`
	At        time.Time  `json:"at" doc:"the instant that it is about, of the database's clock"`
	Status    string     `json:"status" enum:"accepted,running,confirming,cancelling,committed,cancelled,resolved"`
	Result    string     `json:"result" enum:"accepted,running,succeeded,failed,unknown"`
	Suspended bool       `json:"suspended" doc:"waits for a person"`
	Sentences []string   `json:"sentences" nullable:"false" doc:"all of it for people, in order; the words may change with any version"`
	State     []string   `json:"state" nullable:"false" doc:"the sentences on the state and why"`
	Waits     []Waiting  `json:"waits" nullable:"false" doc:"operations that are not settled"`
	Next      []Upcoming `json:"next" nullable:"false" doc:"what happens by itself"`
	Options   []Option   `json:"options" nullable:"false" doc:"what can be asked for"`
	Links     Links      `json:"links" doc:"transaction, attempts"`
}

// Waiting is an operation that is not settled, and what it waits for.
type Waiting struct {
	Step         string    `json:"step"`
	Phase        string    `json:"phase" enum:"try,confirm,cancel"`
	Participant  string    `json:"participant"`
	Action       string    `json:"action"`
	State        string    `json:"state,omitempty" doc:"of the operation; absent if it was never sent"`
	For          string    `json:"for" enum:"reply,backoff,lease,budget,breaker,limit,ceiling,pause,turn,person,fence,operations"`
	On           []string  `json:"on,omitempty" doc:"with operations: those before it, as step/phase"`
	Since        time.Time `json:"since,omitzero" doc:"when the last attempt was sent"`
	Until        time.Time `json:"until,omitzero" doc:"when this wait ends by itself"`
	Attempt      int       `json:"attempt,omitempty" doc:"the last one sent"`
	AttemptsLeft int       `json:"attempts_left,omitempty" doc:"that may fail before it is exhausted"`
	Replaying    bool      `json:"replaying,omitempty" doc:"an operator's replay is in flight"`
	Text         string    `json:"text"`
}

// Upcoming is something that happens by itself.
type Upcoming struct {
	At   time.Time `json:"at,omitzero" doc:"absent: no certain time"`
	Text string    `json:"text"`
}

// Option is something that can be asked for, and what would come of it.
type Option struct {
	Action       string `json:"action" enum:"replay,discard,resolve,cancel"`
	Step         string `json:"step,omitempty"`
	Phase        string `json:"phase,omitempty"`
	DeadLetterID string `json:"dead_letter_id,omitempty" format:"uuid" doc:"of replay and discard"`
	Possible     bool   `json:"possible" doc:"the rules allow it now"`
	Changes      bool   `json:"changes" doc:"it would change the transaction; false for what is under way already"`
	Code         string `json:"code,omitempty" doc:"if it is not possible: why"`
	Text         string `json:"text"`
}

// explainTransaction answers with sentences about a transaction (E1).
func (h *Handler) explainTransaction(c *call) error {
	id, err := c.pathTransaction()
	if err != nil {
		return err
	}
	c.log = c.log.With("transaction", id.String())
	e, err := h.cfg.Coordinator.Explain(c.r.Context(), c.id.reader(), id)
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, newRenderer(), explanationForm(&e))
}

func explanationForm(e *coordinator.Explained) Explanation {
	self := transactionPath(e.ID.String())
	form := Explanation{
		ID: e.ID.String(), At: e.Explanation.At, Status: string(e.Status), Result: string(e.Result), Suspended: e.Suspended,
		Sentences: e.Explanation.Sentences(), State: append([]string{}, e.Explanation.State...),
		Waits: []Waiting{}, Next: []Upcoming{}, Options: []Option{},
		Links: Links{"transaction": self, "attempts": self + "/attempts"},
	}
	for i := range e.Explanation.Waits {
		w := &e.Explanation.Waits[i]
		form.Waits = append(form.Waits, Waiting{
			Step: w.Step, Phase: string(w.Phase), Participant: w.Participant, Action: w.Action, State: string(w.State),
			For: string(w.For), On: w.On, Since: w.Since, Until: w.Until, Attempt: w.Attempt, AttemptsLeft: w.AttemptsLeft,
			Replaying: w.Replaying, Text: w.Text,
		})
	}
	for _, u := range e.Explanation.Next {
		form.Next = append(form.Next, Upcoming{At: u.At, Text: u.Text})
	}
	for _, o := range e.Explanation.Options {
		option := Option{Action: o.Action, Step: o.Step, Phase: string(o.Phase), Possible: o.Possible, Changes: o.Changes, Code: o.Code, Text: o.Text}
		if letter, ok := e.DeadLetters[o.Step+"/"+string(o.Phase)]; ok && o.Step != "" {
			option.DeadLetterID = letter.String()
		}
		form.Options = append(form.Options, option)
	}
	return form
}
