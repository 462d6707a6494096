package api_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/saga"
)

// Groups, notes, inquiries and the audit, over HTTP.
func TestGroupsOverHTTP(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	id, _ := l.bury()
	l.bury()
	page := decode[api.Groups](l.get("/v1/dead-letter-groups?status=open&participant=ill").expect(200))
	if len(page.Groups) != 1 || page.Groups[0].Counts["open"] != 2 || page.Groups[0].Action != "work" || page.NextCursor != "" {
		t.Fatalf("groups %+v", page)
	}
	group := page.Groups[0].Links["self"]
	l.call("POST", group+"/notes", `{"note":" seen before: restart it "}`).expect(201)
	for _, bad := range []string{`{"note":""}`, `{"note":" "}`, `{}`} {
		l.call("POST", group+"/notes", bad).problem(400, "invalid_value")
	}
	l.call("POST", group+"/notes", `{"text":"x"}`).problem(400, "invalid_json")
	l.call("POST", "/v1/dead-letter-groups/0123456789abcdef/notes", `{"note":"x"}`).problem(404, "not_found")
	l.get("/v1/dead-letter-groups/0123456789abcdef").problem(404, "not_found")
	l.get("/v1/dead-letter-groups/XYZ").problem(400, "invalid_id")
	l.get("/v1/dead-letter-groups?cursor=x").problem(400, "invalid_cursor")
	l.call("POST", group+"/inquire", "").expect(202)
	// this participant answers an inquiry with a fault: it says nothing about what it has recorded
	l.until("the answers", func() bool {
		d := decode[api.GroupDetail](l.get(group).expect(200))
		return len(d.Sample) == 2 && d.Sample[0].Inquiry != nil && d.Sample[1].Inquiry != nil && !d.Sample[0].Inquiry.AnsweredAt.IsZero() &&
			!d.Sample[1].Inquiry.AnsweredAt.IsZero()
	})
	l.call("POST", "/v1/dead-letters/"+id+"/inquire", "").expect(202)
	d := decode[api.GroupDetail](l.get(group).expect(200))
	if len(d.NoteList) != 1 || d.NoteList[0].Note != "seen before: restart it" || d.Predicted["unknown"] != 2 || d.Sample[0].Inquiry.Outcome != string(saga.OutcomeFault) {
		t.Errorf("the group is %+v", d)
	}
	detail := decode[api.DeadLetterDetail](l.get("/v1/dead-letters/" + id).expect(200))
	if detail.Inquiry == nil || detail.Replay.Effect != "unknown" || detail.Replay.Reason == "" || detail.Links["inquire"] == "" {
		t.Errorf("the dead letter is %+v, %+v", detail.Inquiry, detail.Replay)
	}
	for query, want := range map[string]int{
		"":                             5, // a note, a note on nothing, two inquiries, and a call that found nothing
		"?allowed=false":               2,
		"?action=note&actor=anonymous": 2,
		"?object=" + id:                1,
		"?since=2999-01-01T00:00:00Z":  0,
	} {
		if got := len(decode[api.Audit](l.get("/v1/audit" + query).expect(200)).Audit); got != want {
			t.Errorf("audit%s has %d entries, want %d", query, got, want)
		}
	}
	first := decode[api.Audit](l.get("/v1/audit?limit=3").expect(200))
	second := decode[api.Audit](l.get("/v1/audit?limit=3&cursor=" + first.NextCursor).expect(200))
	if len(first.Audit) != 3 || len(second.Audit) != 2 || second.NextCursor != "" {
		t.Errorf("pages of %d and %d", len(first.Audit), len(second.Audit))
	}
	for _, bad := range []string{"?since=yesterday", "?actor=", "?allowed=maybe", "?limit=0"} {
		l.get("/v1/audit"+bad).problem(400, "invalid_query")
	}
}

// A coordinator without a database says so.
func TestWithoutDesk(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{}, func(c *api.Config) { c.Desk = nil })
	call(t, s, "GET", "/v1/audit", "").problem(501, "unsupported")
}
