package saga_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga"
)

const someID = "0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"

// TestIDRoundTrip: text and bytes are the same identity, also for another implementation of UUIDs (S1.2).
func TestIDRoundTrip(t *testing.T) {
	id, err := saga.ParseID(someID)
	if err != nil || id.String() != someID || id.IsZero() || !(saga.ID{}).IsZero() {
		t.Fatalf("%v, %s", err, id)
	}
	if upper, err := saga.ParseID(strings.ToUpper(someID)); err != nil || upper != id {
		t.Errorf("RFC 9562 reads digits of either case: %v", err)
	}
	text, err := json.Marshal(map[string]saga.ID{"id": id})
	if err != nil || string(text) != `{"id":"`+someID+`"}` {
		t.Errorf("%v: %s", err, text)
	}
	var back map[string]saga.ID
	if err := json.Unmarshal(text, &back); err != nil || back["id"] != id {
		t.Errorf("%v: %v", err, back)
	}
	for range 1000 {
		made := uuid.Must(uuid.NewV7())
		id, err := saga.ParseID(made.String())
		if err != nil || id != saga.ID(made) || id.String() != made.String() {
			t.Fatalf("%s: %v, %s", made, err, id)
		}
		sec, nsec := made.Time().UnixTime()
		if want := time.Unix(sec, nsec).Truncate(time.Millisecond); !id.Time().Equal(want) {
			t.Fatalf("%s was made at %s, not %s", made, want, id.Time())
		}
	}
}

// TestIDOrder: ids order by time, as bytes and as text (S1.2).
func TestIDOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var ids []saga.ID
	for i := range 200 {
		id := saga.ID{6: 0x70 | byte(random.IntN(16)), 8: 0x80 | byte(random.IntN(64)), 9: byte(random.IntN(256))}
		ms := int64(1_767_000_000_000) + int64(i)*random.Int64N(1000)
		for b := range 6 {
			id[b] = byte(ms >> (8 * (5 - b)))
		}
		if got := id.Time().UnixMilli(); got != ms {
			t.Fatalf("time %d, want %d", got, ms)
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b saga.ID) int { return strings.Compare(a.String(), b.String()) })
	for i := 1; i < len(ids); i++ {
		if ids[i].Time().Before(ids[i-1].Time()) || slices.Compare(ids[i-1][:], ids[i][:]) > 0 {
			t.Fatalf("%s before %s", ids[i-1], ids[i])
		}
	}
}

// TestIDRefusals: everything else is refused at the door (S1.7).
func TestIDRefusals(t *testing.T) {
	for _, text := range []string{
		"", "0", strings.Repeat("0", 36), someID + "0", someID[:35], "{" + someID[1:35] + "}", "urn:uuid:" + someID,
		strings.ReplaceAll(someID, "-", ""), strings.Replace(someID, "-", "_", 1),
		"0198c7a2-5b7e-4c31-9f6e-0a4b1c2d3e4f", // version 4
		"0198c7a2-5b7e-7c31-cf6e-0a4b1c2d3e4f", // another variant
		"0198c7a2-5b7e-7c31-1f6e-0a4b1c2d3e4f",
		"0198c7g2-5b7e-7c31-9f6e-0a4b1c2d3e4f", "0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e\x00f", "０198c7a2-5b7e-7c31-9f6e-0a4b1c2d3",
		"00000000-0000-0000-0000-000000000000",
	} {
		id, err := saga.ParseID(text)
		wantInvalid(t, err, "invalid_id", "transaction id")
		if !id.IsZero() {
			t.Errorf("%q gives %s beside its error", text, id)
		}
	}
}

// FuzzParseID: what is accepted is a UUID, and its canonical form is that of another implementation.
func FuzzParseID(f *testing.F) {
	f.Add(someID)
	f.Fuzz(func(t *testing.T, text string) {
		id, err := saga.ParseID(text)
		if err != nil {
			return
		}
		if other, err := uuid.Parse(text); err != nil || other.String() != id.String() || other.Version() != 7 {
			t.Fatalf("%q: %s, %s, %v", text, id, other, err)
		}
	})
}

// TestNames holds what names are made of (S1.7).
func TestNames(t *testing.T) {
	for _, name := range []string{"a", "Z", "0", "a-b_c", "9-", strings.Repeat("x", 64)} {
		if err := saga.CheckName("step", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", "_a", "a.b", "a b", "a>", "*", "a\n", "a\x00", "é", "a/b", strings.Repeat("x", 65), "\x1b[2J", "\xff"} {
		wantInvalid(t, saga.CheckName("step", name), "invalid_name", "step")
	}
}

// TestRequestIDs: 1 to 255 visible ASCII characters (S1.7).
func TestRequestIDs(t *testing.T) {
	for _, id := range []string{"a", "!", "~", "order/17?x=y", strings.Repeat("x", 255)} {
		if err := saga.CheckRequestID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", " ", "a b", "a\n", "\x7f", "é", "\x00", strings.Repeat("x", 256)} {
		wantInvalid(t, saga.CheckRequestID(id), "invalid_request_id", "request id")
	}
}

// TestOperationKey: the attempt is no part of an operation's identity (S1.1).
func TestOperationKey(t *testing.T) {
	id, err := saga.ParseID(someID)
	if err != nil {
		t.Fatal(err)
	}
	first := saga.Command{Tenant: "shop", Transaction: id, Step: "pay", Phase: saga.PhaseTry, Attempt: 1}
	second, reply := first, saga.Reply{Tenant: "shop", Transaction: id, Step: "pay", Phase: saga.PhaseTry, Attempt: 3}
	second.Attempt, second.Revision = 2, 2
	if first.Key() != second.Key() || first.Key() != reply.Key() {
		t.Error("attempts of one operation have different keys")
	}
	if got := first.Key().String(); got != "shop/"+someID+"/pay/try" {
		t.Error(got)
	}
}
