package saga_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Every event in many reachable states, judged from memory and from the stored row. On the stored row the judgement
// is Step's. From memory nothing is acknowledged that is not also written at the version it was decided on, unless
// the transaction has ended: whoever was outdated finds out (S2.10, C9, I-7).
func TestJudgeFromMemory(t *testing.T) {
	def := exploredDefinition()
	reloads, same := 0, 0
	const every = 50 // states: all of them take a minute
	for i, p := range explore(t, def) {
		if i%every != 0 && i > every {
			continue
		}
		for _, e := range pointEvents(def, p, exploredSlots()) {
			c := saga.Case{Def: def, Tx: p.tx, Event: e.ev}
			stored, storedErr := saga.Judge(c, e.at, slowest{})
			tx, effects, err := saga.Step(def, p.tx, e.ev, e.at, slowest{})
			_, reply := e.ev.(saga.Replied)
			switch {
			case !reflect.DeepEqual(storedErr, err) || stored.Reload || !reflect.DeepEqual(stored.Tx, tx):
				t.Fatalf("%s in %v: judged %+v, %v; Step says %+v, %v", e.name, p.via, stored.Tx, storedErr, tx, err)
			case err == nil && !reflect.DeepEqual(stored.Effects, effects):
				t.Fatalf("%s in %v: other effects than Step's", e.name, p.via)
			case err != nil && reply != (len(stored.Effects.Incidents) == 1):
				t.Fatalf("%s in %v: %d incidents", e.name, p.via, len(stored.Effects.Incidents))
			}
			c.Cached = true
			cached, cachedErr := saga.Judge(c, e.at, slowest{})
			if cached.Reload {
				reloads++
				if p.tx.Status.Terminal() || cachedErr != nil || !reflect.DeepEqual(cached.Tx, p.tx) {
					t.Fatalf("%s in %v: %v, and loaded again", e.name, p.via, cachedErr)
				}
				continue
			}
			same++
			if !reflect.DeepEqual(cached, stored) || !reflect.DeepEqual(cachedErr, storedErr) {
				t.Fatalf("%s in %v: memory and store differ", e.name, p.via)
			}
			if written := cached.Effects.Changed || cached.MoveTimer; !written && p.tx.Status != "" && !p.tx.Status.Terminal() {
				t.Fatalf("%s in %v: acknowledged from memory without a write", e.name, p.via)
			}
		}
	}
	t.Logf("%d loaded again, %d judged at once", reloads, same)
	if reloads < 10_000 || same < 1_000 {
		t.Error("hardly anything was met")
	}
}

// running returns a transaction whose tries of a and b are under way.
func running(t *testing.T) (*saga.Definition, saga.Transaction) {
	t.Helper()
	def := exploredDefinition()
	tx, _, err := saga.Step(def, newTransaction(def), saga.Submitted{}, begin, slowest{})
	if err != nil {
		t.Fatal(err)
	}
	tx.Version = 7
	return def, tx
}

// A reply of somebody whom the transaction does not concern changes nothing, is answered as if there were no such
// transaction, and is an incident; other events are none (I-14).
func TestJudgeForeign(t *testing.T) {
	def, tx := running(t)
	good := answer(def, tx, "a", saga.PhaseTry, saga.OutcomeDone)
	with := func(change func(*saga.Reply)) saga.Event {
		r := good
		change(&r)
		return saga.Replied{Reply: r}
	}
	for name, c := range map[string]struct {
		tx       saga.Transaction
		ev       saga.Event
		incident string
	}{
		"no transaction":         {saga.Transaction{}, saga.Replied{Reply: good}, "names a transaction that does not exist"},
		"no transaction, wake":   {saga.Transaction{}, saga.Woken{}, ""},
		"no transaction, cancel": {saga.Transaction{}, saga.CancelRequested{}, ""},
		"another tenant":         {tx, with(func(r *saga.Reply) { r.Tenant = "other" }), "names a transaction of another tenant"},
		"another participant":    {tx, with(func(r *saga.Reply) { r.Participant = "b" }), "of b is about a step of a"},
	} {
		for _, cached := range []bool{false, true} {
			j, err := saga.Judge(saga.Case{Def: def, Tx: c.tx, Cached: cached, Event: c.ev}, begin, slowest{})
			var incident string
			for _, i := range j.Effects.Incidents {
				incident += i.Problem
			}
			if !errors.Is(err, saga.ErrNotFound) || j.Reload || j.Effects.Changed || incident != c.incident || !reflect.DeepEqual(j.Tx, c.tx) {
				t.Errorf("%s: %v, incident %q, %+v", name, err, incident, j)
			}
		}
	}
	if j, err := saga.Judge(saga.Case{Def: def, Tx: tx, Event: saga.Replied{Reply: good}}, begin, slowest{}); err != nil || !j.Effects.Changed {
		t.Errorf("the reply itself: %+v, %v", j, err)
	}
}

// An operator's event is carried out at the version that the operator saw, or not at all (D2, S2.12).
func TestJudgeExpectedVersion(t *testing.T) {
	def, tx := running(t)
	ended := tx
	ended.Status = saga.StatusResolved
	for name, c := range map[string]struct {
		about  saga.Case
		stale  bool
		reload bool
	}{
		"that version":            {saga.Case{Tx: tx, Expected: 7}, false, false},
		"any version":             {saga.Case{Tx: tx}, false, false},
		"past":                    {saga.Case{Tx: tx, Expected: 6}, true, false},
		"changed in this write":   {saga.Case{Tx: tx, Expected: 7, Changed: true}, true, false},
		"past, from memory":       {saga.Case{Tx: tx, Expected: 8, Cached: true}, false, true},
		"changed, from memory":    {saga.Case{Tx: tx, Expected: 7, Cached: true, Changed: true}, false, true},
		"past, ended, of memory":  {saga.Case{Tx: ended, Expected: 6, Cached: true}, true, false},
		"ended only in the write": {saga.Case{Tx: ended, Expected: 7, Cached: true, Changed: true}, false, true},
	} {
		c.about.Def, c.about.Event = def, saga.CancelRequested{}
		j, err := saga.Judge(c.about, begin, slowest{})
		if errors.Is(err, saga.ErrStale) != c.stale || j.Reload != c.reload || (c.stale || c.reload) && j.Effects.Changed {
			t.Errorf("%s: %v, %+v", name, err, j)
		}
		if !c.stale && !c.reload && (err != nil || j.Tx.Status != saga.StatusCancelling) {
			t.Errorf("%s: %v, %s", name, err, j.Tx.Status)
		}
	}
}

// A wake that finds nothing moves the timer, also from memory, because that names the version; not after the end.
func TestJudgeWake(t *testing.T) {
	def, tx := running(t)
	j, err := saga.Judge(saga.Case{Def: def, Tx: tx, Cached: true, Event: saga.Woken{}}, begin, slowest{})
	if err != nil || j.Reload || j.Effects.Changed || !j.MoveTimer || !j.Effects.Wake.After(begin) {
		t.Errorf("too early: %+v, %v", j, err)
	}
	tx.Status = saga.StatusCommitted
	j, err = saga.Judge(saga.Case{Def: def, Tx: tx, Cached: true, Event: saga.Woken{}}, begin, slowest{})
	if err != nil || j.Reload || j.Effects.Changed || j.MoveTimer {
		t.Errorf("after the end: %+v, %v", j, err)
	}
}

// What is given up is named, and a definitive reply that comes after all is told to the audit (S2.13).
func TestJudgeGivenUp(t *testing.T) {
	def := saga.Define("order").Saga("a", "a", "act", saga.Root()).Saga("b", "b", "act", saga.Root()).MustBuild()
	tx := newTransaction(def)
	now := begin
	judge := func(ev saga.Event) saga.Judgement {
		t.Helper()
		now = now.Add(time.Second)
		j, err := saga.Judge(saga.Case{Def: def, Tx: tx, Event: ev}, now, slowest{})
		if err != nil {
			t.Fatal(err)
		}
		tx = j.Tx
		return j
	}
	fault := func(step string) saga.Event {
		r := answer(def, tx, step, saga.PhaseCancel, saga.OutcomeFault)
		r.Code = saga.FaultConflict
		return saga.Replied{Reply: r}
	}
	late := func(outcome saga.Outcome) bool {
		return judge(saga.Replied{Reply: answer(def, tx, "a", saga.PhaseCancel, outcome)}).Late
	}
	judge(saga.Submitted{})
	judge(saga.CancelRequested{})
	judge(fault("a"))
	judge(fault("b"))
	if late(saga.OutcomeRetry) {
		t.Error("late while it is a dead letter")
	}
	if got := judge(saga.DiscardRequested{Step: "a", Phase: saga.PhaseCancel}).EffectUnknown; strings.Join(got, " ") != "a/cancel" {
		t.Errorf("given up: %v", got)
	}
	if got := judge(saga.ResolveRequested{}).EffectUnknown; strings.Join(got, " ") != "b/cancel" || tx.Status != saga.StatusResolved {
		t.Errorf("given up: %v, %s", got, tx.Status)
	}
	for outcome, want := range map[saga.Outcome]bool{
		saga.OutcomeDone: true, saga.OutcomeRefused: true, saga.OutcomeHanging: true,
		saga.OutcomeRetry: false, saga.OutcomeUnknown: false, saga.OutcomeState: false,
	} {
		if late(outcome) != want {
			t.Errorf("%s after it was given up: late %t", outcome, !want)
		}
	}
	// A try that is discarded is decided about, not given up: its cancel follows.
	def = saga.Define("order").Saga("a", "a", "act").MustBuild()
	tx = newTransaction(def)
	judge(saga.Submitted{})
	r := answer(def, tx, "a", saga.PhaseTry, saga.OutcomeUnknown)
	judge(saga.Replied{Reply: r})
	if got := judge(saga.DiscardRequested{Step: "a", Phase: saga.PhaseTry}).EffectUnknown; len(got) > 0 || tx.Status != saga.StatusCancelling {
		t.Errorf("a discarded try: %v, %s", got, tx.Status)
	}
}

func TestJudgeSubmission(t *testing.T) {
	keyed := saga.Request{Tenant: "shop", Client: "web", RequestID: "k", Transaction: saga.ID{1}, ContentSHA256: [32]byte{1}}
	but := func(change func(*saga.Request)) *saga.Request {
		r := keyed
		change(&r)
		return &r
	}
	noKey := *but(func(r *saga.Request) { r.RequestID = "" })
	otherID := but(func(r *saga.Request) { r.Transaction = saga.ID{2} })
	otherContent := but(func(r *saga.Request) { r.ContentSHA256 = [32]byte{2} })
	for name, c := range map[string]struct {
		stored   *saga.Request
		incoming saga.Request
		sent     bool
		want     saga.Submitting
		err      error
	}{
		"nothing is stored":                 {nil, keyed, false, saga.SubmittingNew, nil},
		"nothing, after a commit in doubt":  {nil, keyed, true, saga.SubmittingNew, nil},
		"the same again (I2)":               {&keyed, keyed, false, saga.SubmittingReplayed, nil},
		"the same with the server's new id": {otherID, keyed, false, saga.SubmittingReplayed, nil},
		"own commit in doubt (C9)":          {&keyed, keyed, true, saga.SubmittingStored, nil},
		"first one's commit was in doubt":   {otherID, keyed, true, saga.SubmittingReplayed, nil},
		"other content (S1.3)":              {otherContent, keyed, false, "", saga.ErrKeyReused},
		"other content, in doubt":           {otherContent, keyed, true, "", saga.ErrKeyReused},
		"own id again":                      {&noKey, noKey, false, saga.SubmittingReplayed, nil},
		"own id, other content":             {but(func(r *saga.Request) { r.RequestID, r.ContentSHA256 = "", [32]byte{2} }), noKey, false, "", saga.ErrIDTaken},
		"own id, with a key now":            {&noKey, keyed, false, "", saga.ErrIDTaken},
		"own id, of another client (S1.2)":  {but(func(r *saga.Request) { r.Client = "app" }), keyed, false, "", saga.ErrIDTaken},
		"own id, of another tenant (I-14)":  {but(func(r *saga.Request) { r.Tenant = "bank" }), keyed, true, "", saga.ErrIDTaken},
	} {
		got, err := saga.JudgeSubmission(c.stored, c.incoming, c.sent)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// What a dead letter itself proves about an operator's action (D2, D3, S2.12).
func TestJudgeLetter(t *testing.T) {
	code := func(err error) string {
		var state *saga.StateError
		switch {
		case err == nil:
			return ""
		case errors.As(err, &state):
			return state.Code
		case errors.Is(err, saga.ErrStale):
			return "stale"
		}
		return err.Error()
	}
	operation := saga.Letter{Status: saga.DeadLetterOpen, Version: 3, Step: "a", Phase: saga.PhaseCancel}
	message := saga.Letter{Message: true, Status: saga.DeadLetterOpen, Version: 3}
	as := func(l saga.Letter, s saga.DeadLetterStatus) saga.Letter { l.Status = s; return l }
	for name, c := range map[string]struct {
		letter          saga.Letter
		seen            int64
		replay, discard string
	}{
		"open":                      {operation, 3, "", ""},
		"open, any version":         {operation, 0, "", ""},
		"seen at another version":   {operation, 2, "stale", "stale"},
		"replaying: Judge refuses":  {as(operation, saga.DeadLetterReplaying), 3, "", ""},
		"closed: Judge refuses":     {as(operation, saga.DeadLetterClosed), 3, "", ""},
		"obsolete":                  {as(operation, saga.DeadLetterObsolete), 3, saga.CodeObsolete, saga.CodeObsolete},
		"obsolete, seen before":     {as(operation, saga.DeadLetterObsolete), 2, saga.CodeObsolete, saga.CodeObsolete},
		"a message":                 {message, 0, saga.CodeNotDeadLetter, ""},
		"a message seen before":     {message, 2, saga.CodeNotDeadLetter, "stale"},
		"a message that is no more": {as(message, saga.DeadLetterDiscarded), 3, saga.CodeNotDeadLetter, saga.CodeNotDeadLetter},
	} {
		if got := code(saga.JudgeLetter(c.letter, saga.LetterRequest{Action: saga.LetterReplay, Seen: c.seen}, time.Time{})); got != c.replay {
			t.Errorf("replay of %s: %q, want %q", name, got, c.replay)
		}
		if got := code(saga.JudgeLetter(c.letter, saga.LetterRequest{Action: saga.LetterDiscard, Seen: c.seen}, time.Time{})); got != c.discard {
			t.Errorf("discard of %s: %q, want %q", name, got, c.discard)
		}
	}
	if got := operation.Event(saga.LetterReplay); got != (saga.ReplayRequested{Step: "a", Phase: saga.PhaseCancel}) {
		t.Errorf("replay asks %+v", got)
	}
	if got := operation.Event(saga.LetterDiscard); got != (saga.DiscardRequested{Step: "a", Phase: saga.PhaseCancel}) {
		t.Errorf("discard asks %+v", got)
	}
}
