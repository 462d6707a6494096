package api

import (
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Group is the dead letters of one fingerprint: one cause.
type Group struct {
	Fingerprint string         `json:"fingerprint"`
	Kind        string         `json:"kind" enum:"operation,message"`
	Participant string         `json:"participant,omitempty"`
	Action      string         `json:"action,omitempty"`
	Phase       string         `json:"phase,omitempty"`
	Cause       string         `json:"cause"`
	Reason      string         `json:"reason,omitempty" doc:"of one of them"`
	FirstSeen   time.Time      `json:"first_seen"`
	LastSeen    time.Time      `json:"last_seen" doc:"when one of them changed last"`
	Counts      map[string]int `json:"counts" nullable:"false" doc:"dead letters by status: open, replaying, closed, obsolete, discarded"`
	Notes       int            `json:"note_count"`
	Links       Links          `json:"links" doc:"self, dead_letters, notes, inquire"`
}

// Groups is a page of groups, the one that was seen first last.
type Groups struct {
	Groups     []Group `json:"groups" nullable:"false"`
	NextCursor string  `json:"next_cursor,omitempty" doc:"of the next page; absent on the last"`
}

// GroupDetail is a group with its notes, and what replays of some of its dead letters would do.
type GroupDetail struct {
	Group
	NoteList  []Note            `json:"notes" nullable:"false" doc:"the newest 100, the oldest of them first"`
	Sample    []PredictedLetter `json:"sample" nullable:"false" doc:"open dead letters, the newest first, at most 20"`
	Predicted map[string]int    `json:"predicted" nullable:"false" doc:"of the sample, by effect"`
}

// PredictedLetter is a dead letter with what its replay would do.
type PredictedLetter struct {
	DeadLetter
	Inquiry *Inquiry   `json:"inquiry,omitempty"`
	Replay  Prediction `json:"replay"`
}

// Note is what an operator wrote about a group.
type Note struct {
	ID    string    `json:"id" format:"uuid"`
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	Note  string    `json:"note"`
}

// NoteForm is the body that writes a note.
type NoteForm struct {
	Note string `json:"note" maxLength:"1024" doc:"text for people"`
}

func groupRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/dead-letter-groups", access: accessOperator, byTenant: true, handle: (*Handler).listGroups, name: "listDeadLetterGroups",
			summary: "List dead letters by cause: one group for each fingerprint, the newest cause first",
			params: append([]*huma.Param{
				param("query", "status", "only groups that have dead letters of this status", stringSchema(deadLetterStatuses...)),
				param("query", "participant", "only those of the participant", stringSchema()),
			}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[Groups](), nil}}, codes: []string{codeInvalidQuery, codeInvalidCursor, codeUnsupported},
		},
		{
			method: http.MethodGet, path: "/v1/dead-letter-groups/{fingerprint}", access: accessOperator, byTenant: true, handle: (*Handler).getGroup, name: "getDeadLetterGroup",
			summary: "Read a group with its notes, and what replays of some of its dead letters would do",
			answers: []answerDoc{{200, "the group", reflect.TypeFor[GroupDetail](), nil}}, codes: []string{"invalid_id", codeNotFound, codeUnsupported},
		},
		{
			method: http.MethodPost, path: "/v1/dead-letter-groups/{fingerprint}/notes", access: accessOperator, byTenant: true, handle: (*Handler).noteGroup, name: "noteDeadLetterGroup",
			summary: "Write down what is known about a cause",
			request: reflect.TypeFor[NoteForm](), required: true,
			answers: []answerDoc{{201, "the note", reflect.TypeFor[Note](), nil}},
			codes: []string{
				"invalid_id", "invalid_json", "invalid_utf8", "duplicate_member", "invalid_value", codeIncomplete, codeSlow, saga.CodeTooLarge, codeMediaType,
				codeDuplicateHeader, codeNotFound, codeTooManyNotes, codeOverloaded, codeOutcomeUnknown, codeUnsupported,
			},
		},
		{
			method: http.MethodPost, path: "/v1/dead-letter-groups/{fingerprint}/inquire", access: accessOperator, byTenant: true, handle: (*Handler).inquireGroup, name: "inquireDeadLetterGroup",
			summary: "Ask the participant what it has recorded of the dead letters that the group shows; it changes nothing there",
			answers: []answerDoc{{202, "it is asked: read the group again", reflect.TypeFor[Inquired](), nil}},
			codes:   []string{"invalid_id", codeNotFound, codeOutcomeUnknown, codeUnsupported},
		},
		{
			method: http.MethodPost, path: "/v1/dead-letters/{id}/inquire", access: accessOperator, byTenant: true, handle: (*Handler).inquireDeadLetter, name: "inquireDeadLetter",
			summary: "Ask the participant what it has recorded of an open dead letter's operation; it changes nothing there, and an answer that settles the operation closes the dead letter",
			answers: []answerDoc{{202, "it is asked: read the dead letter again", reflect.TypeFor[Inquired](), nil}},
			codes:   []string{"invalid_id", codeNotFound, saga.CodeNotDeadLetter, codeOutcomeUnknown, codeUnsupported},
		},
	}
}

func groupPath(fingerprint string) string { return "/v1/dead-letter-groups/" + fingerprint }

func groupForm(g *dlq.Group) Group {
	self := groupPath(g.Fingerprint)
	form := Group{
		Fingerprint: g.Fingerprint, Kind: string(g.Kind), Participant: g.Participant, Action: g.Action, Phase: string(g.Phase), Cause: g.Cause, Reason: g.Reason,
		FirstSeen: g.FirstSeen, LastSeen: g.LastSeen, Counts: map[string]int{}, Notes: g.Notes,
		Links: Links{"self": self, "dead_letters": "/v1/dead-letters?fingerprint=" + g.Fingerprint, "notes": self + "/notes", "inquire": self + "/inquire"},
	}
	for status, n := range g.Counts {
		form.Counts[string(status)] = n
	}
	return form
}

func noteForm(n *dlq.Note) Note {
	return Note{ID: n.ID.String(), At: n.At, Actor: n.Actor, Note: n.Text}
}

// checkFingerprint reports whether s is a fingerprint: 16 hexadecimal digits.
func checkFingerprint(s string) bool {
	const digits = 16
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// pathFingerprint reads the fingerprint of the path.
func (c *call) pathFingerprint() (string, error) {
	s := c.r.PathValue("fingerprint")
	if !checkFingerprint(s) {
		return "", problemIn("invalid_id", "fingerprint", "use the fingerprint of a group: 16 hexadecimal digits")
	}
	return s, nil
}

// A cursor of groups is when the last one was first seen, in microseconds, and its fingerprint.
func groupCursor(p dlq.GroupPlace) string {
	var place [16]byte
	binary.BigEndian.PutUint64(place[:8], uint64(p.FirstSeen.UnixMicro()))
	_, _ = hex.Decode(place[8:], []byte(p.Fingerprint)) // it is hexadecimal
	return cursorOf(cursorGroups, place)
}

func (c *call) queryGroupCursor() (p dlq.GroupPlace, err error) {
	place, err := c.queryCursor(cursorGroups)
	if err != nil || place == [16]byte{} {
		return p, err
	}
	p.FirstSeen = time.UnixMicro(int64(binary.BigEndian.Uint64(place[:8])))
	p.Fingerprint = hex.EncodeToString(place[8:])
	return p, nil
}

// listGroups answers with a page of groups.
func (h *Handler) listGroups(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	f := dlq.GroupFilter{Tenant: c.id.scope()}
	var status string
	if status, err = c.queryOneOf("status", deadLetterStatuses); err != nil {
		return err
	}
	f.Status = saga.DeadLetterStatus(status)
	if f.Participant, err = c.queryName("participant"); err != nil {
		return err
	}
	limit, err := c.queryLimit()
	if err != nil {
		return err
	}
	if f.Before, err = c.queryGroupCursor(); err != nil {
		return err
	}
	f.Limit = limit + 1 // to see whether there is a next page
	groups, err := desk.Groups(c.r.Context(), f)
	if err != nil {
		return err
	}
	page := Groups{Groups: []Group{}}
	if len(groups) > limit {
		groups = groups[:limit]
		page.NextCursor = groupCursor(groups[limit-1].Place())
	}
	for i := range groups {
		page.Groups = append(page.Groups, groupForm(&groups[i]))
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

// getGroup answers with a group and what is known about it.
func (h *Handler) getGroup(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	fingerprint, err := c.pathFingerprint()
	if err != nil {
		return err
	}
	d, err := desk.Group(c.r.Context(), fingerprint, c.id.scope())
	if err != nil {
		return err
	}
	form := GroupDetail{Group: groupForm(&d.Group), NoteList: []Note{}, Sample: []PredictedLetter{}, Predicted: map[string]int{}}
	for i := range d.Notes {
		form.NoteList = append(form.NoteList, noteForm(&d.Notes[i]))
	}
	for i := range d.Sample {
		form.Sample = append(form.Sample, predictedForm(&d.Sample[i]))
	}
	for effect, n := range d.Predicted {
		form.Predicted[string(effect)] = n
	}
	return c.send(http.StatusOK, newRenderer(), form)
}

func predictedForm(p *coordinator.PredictedLetter) PredictedLetter {
	return PredictedLetter{DeadLetter: deadLetterForm(&p.DeadLetter), Inquiry: inquiryForm(p.Inquiry, p.ContentSHA256), Replay: predictionForm(p.Replay)}
}

// noteGroup writes a note about a group.
func (h *Handler) noteGroup(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	p := coordinator.GroupParams{Actor: c.id.Actor, Tenant: c.id.scope()}
	if p.Fingerprint, err = c.pathFingerprint(); err != nil {
		return err
	}
	body, err := c.body(actionBytesMax)
	if err != nil {
		return err
	}
	var form NoteForm
	if err := saga.UnmarshalStrict(body, "note", 1, &form); err != nil {
		return err
	}
	if p.Text, err = checkReason(form.Note); err != nil || p.Text == "" {
		return problemIn("invalid_value", "note", "use 1 to 1024 bytes of text")
	}
	ctx, cancel := c.bounded()
	defer cancel()
	note, err := desk.NoteGroup(ctx, p)
	if err != nil {
		return err
	}
	return c.send(http.StatusCreated, newRenderer(), noteForm(&note))
}

// inquireGroup asks about the dead letters that a group shows.
func (h *Handler) inquireGroup(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	fingerprint, err := c.pathFingerprint()
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	if err := desk.InquireGroup(ctx, coordinator.GroupParams{Actor: c.id.Actor, Tenant: c.id.scope(), Fingerprint: fingerprint}); err != nil {
		return err
	}
	return c.send(http.StatusAccepted, newRenderer(), Inquired{Links: Links{"self": groupPath(fingerprint)}})
}
