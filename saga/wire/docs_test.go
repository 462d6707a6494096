package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// docs/protocol.md is the contract for participants in other languages. These tests hold every example in it
// to what this package writes.

func protocolPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// example is a fenced block and the name in the comment before it.
type example struct{ name, text string }

var exampleRE = regexp.MustCompile("(?s)<!-- example: ([^\n]+) -->\n```[a-z]+\n(.*?)\n```\n")

func examples(t *testing.T) []example {
	t.Helper()
	page := protocolPage(t)
	var all []example
	for _, m := range exampleRE.FindAllStringSubmatch(page, -1) {
		all = append(all, example{m[1], m[2]})
	}
	if fences := strings.Count("\n"+page, "\n```"); fences != 2*len(all) {
		t.Fatalf("%d fences, but %d examples: one has no name and would not be checked", fences, len(all))
	}
	return all
}

func TestProtocolPageExamples(t *testing.T) {
	seen := map[string]int{}
	for _, e := range examples(t) {
		seen[e.name]++
		switch e.name {
		case "bodies of a try":
			checkBodies(t, saga.PhaseTry, e.text)
		case "bodies of a confirm or cancel":
			checkBodies(t, saga.PhaseConfirm, e.text)
		case "content hash":
			checkHashExample(t, e.text)
		case "signed headers":
			checkSignedHeaders(t, strings.Split(e.text, "\n"))
		default:
			golden, err := os.ReadFile(goldenPath(e.name))
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimPrefix(string(golden), frozen); strings.TrimRight(e.text, "\n") != strings.TrimRight(want, "\n") {
				t.Errorf("%s is\n%s\nbut the golden file has\n%s", e.name, e.text, want)
			}
		}
	}
	for _, name := range []string{"command_try", "reply_done", "canonical_command", "content hash", "signed headers", "bodies of a try"} {
		if seen[name] == 0 {
			t.Errorf("the page has no example %q", name)
		}
	}
}

func checkBodies(t *testing.T, phase saga.Phase, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		b, err := wire.ParseBody(phase, []byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		again := saga.SettleBody(b.Input, b.Try)
		if phase == saga.PhaseTry {
			again = saga.TryBody(b.Input, b.Results)
		}
		if string(again) != line {
			t.Errorf("%s is written as %s", line, again)
		}
	}
}

func checkHashExample(t *testing.T, text string) {
	t.Helper()
	m := regexp.MustCompile(`^\$ printf '%s\\n%s' '([^']+)' '([^']+)' \| sha256sum\n([0-9a-f]{64})  -$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("not a worked example: %s", text)
	}
	sum := saga.ContentSHA256(m[1], []byte(m[2]))
	if got := hex.EncodeToString(sum[:]); got != m[3] {
		t.Errorf("the hash is %s", got)
	}
}

// checkSignedHeaders learns the order from Canonical itself: a message whose headers hold their own names.
func checkSignedHeaders(t *testing.T, names []string) {
	t.Helper()
	m := wire.Message{Header: wire.Header{}}
	for _, row := range headerRows(t) {
		m.Header[row.name] = []string{row.name}
	}
	lines := strings.Split(string(wire.Canonical(m)), "\n")
	if !slices.Equal(lines[:len(lines)-1], names) {
		t.Errorf("signed are %q", lines)
	}
}

type headerRow struct{ name, inCommands, inReplies, example string }

func headerRows(t *testing.T) []headerRow {
	t.Helper()
	var rows []headerRow
	for _, cells := range tableRows(t, "| header |") {
		rows = append(rows, headerRow{unquoteCell(cells[0]), cells[2], cells[3], unquoteCell(cells[4])})
	}
	return rows
}

// tableRows returns the cells of the table whose head begins so.
func tableRows(t *testing.T, head string) [][]string {
	t.Helper()
	_, table, ok := strings.Cut(protocolPage(t), "\n"+head)
	if !ok {
		t.Fatalf("no table %q", head)
	}
	var rows [][]string
	for i, line := range strings.Split(table, "\n") {
		switch {
		case i < 2: // the rest of the head, and the rule below it
		case !strings.HasPrefix(line, "|"):
			return rows
		default:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

func unquoteCell(cell string) string { return strings.Trim(cell, "`") }

// The table of headers tells the truth about every golden message, and its examples come from them.
func TestProtocolPageHeaders(t *testing.T) {
	rows, known, examples := headerRows(t), map[string]bool{}, map[string]bool{}
	check := func(message string, m wire.Message, column func(headerRow) string) {
		for _, row := range rows {
			_, has := m.Header[row.name]
			if says := column(row); strings.HasPrefix(says, "always") && !has || says == "—" && has {
				t.Errorf("%s: %s is said to be there: %s", message, row.name, says)
			}
			if has && m.Header[row.name][0] == row.example {
				examples[row.name] = true
			}
		}
		for name := range m.Header {
			if !known[name] {
				t.Errorf("%s has the header %s, which the page does not know", message, name)
			}
		}
	}
	for _, row := range rows {
		known[row.name] = true
	}
	for name, c := range goldenCommands() {
		check(name, encodeCommand(t, c), func(r headerRow) string { return r.inCommands })
	}
	for name, r := range goldenReplies() {
		check(name, encodeReply(t, r), func(r headerRow) string { return r.inReplies })
	}
	for _, row := range rows {
		if !examples[row.name] && row.name != wire.HeaderSignature {
			t.Errorf("the example of %s, %q, is in no message", row.name, row.example)
		}
	}
}

func TestProtocolPageTables(t *testing.T) {
	subjects := []string{
		wire.CommandSubject("saga", "accounts"), wire.ReplySubject("saga", "accounts", wire.Shard(testID, 8)),
		wire.SubmitSubject("saga", "acme"), wire.EventSubject("saga", "acme", "transfer"),
	}
	for i, cells := range tableRows(t, "| messages |") {
		if unquoteCell(cells[2]) != subjects[i] {
			t.Errorf("the subject is %s, not %s", subjects[i], cells[2])
		}
	}
	for _, cells := range tableRows(t, "| text (as a JSON string) |") {
		r := baseReply(saga.OutcomeRefused)
		if err := json.Unmarshal([]byte(unquoteCell(cells[0])), &r.Reason); err != nil {
			t.Fatal(err)
		}
		if got := encodeReply(t, r).Header[wire.HeaderReason][0]; got != unquoteCell(cells[1]) {
			t.Errorf("%s travels as %s", cells[0], got)
		}
	}
	ids := []string{
		encodeCommand(t, goldenCommands()["command_try"]).Header[wire.HeaderMsgID][0],
		encodeReply(t, goldenReplies()["reply_refused"]).Header[wire.HeaderMsgID][0],
	}
	for i, cells := range tableRows(t, "| | `Nats-Msg-Id` |") {
		if unquoteCell(cells[1]) != ids[i] {
			t.Errorf("the id of %s is %s", cells[0], ids[i])
		}
	}
}

// Every outcome, fault code and state has its place, and the page names no other.
func TestProtocolPageOutcomes(t *testing.T) {
	first := func(head string) (names []string) {
		for _, cells := range tableRows(t, head) {
			names = append(names, unquoteCell(cells[0]))
		}
		return names
	}
	for _, name := range first("| outcome |") {
		r := baseReply(saga.Outcome(name))
		r.Code, r.State = saga.FaultConflict, saga.BarrierTried
		if _, err := wire.DecodeReply(encodeReply(t, r)); err != nil {
			t.Error(err)
		}
	}
	outcomes := []string{"done", "refused", "retry", "in_progress", "unknown", "hanging", "fault", "state", "reserved"}
	if got := first("| outcome |"); !slices.Equal(got, outcomes) {
		t.Errorf("the outcomes are %q", got)
	}
	faults := []string{
		saga.FaultConflict, saga.FaultNotTried, saga.FaultContradicts, saga.FaultUndecodable, saga.FaultRefusedPhaseTwo,
		saga.FaultSuperseded, saga.FaultPastRetention, saga.FaultPoison, saga.FaultHandler, saga.FaultResultTooLarge,
	}
	if got := first("| code of a fault |"); !slices.Equal(got, faults) {
		t.Errorf("the codes of faults are %q", got)
	}
	page := protocolPage(t)
	for _, s := range []string{
		saga.CodeDeadline, saga.CodePanic, saga.CodeUnknownAction, saga.CodeBusy, saga.CodeError, string(saga.BarrierAbsent),
		string(saga.BarrierTrying), string(saga.BarrierTried), string(saga.BarrierRefused), string(saga.BarrierConfirmed),
		string(saga.BarrierCancelled), string(saga.BarrierPastRetention),
	} {
		if !strings.Contains(page, "`"+s+"`") {
			t.Errorf("the page does not say `%s`", s)
		}
	}
}

// The numbers on the page are those of the code.
func TestProtocolPageLimits(t *testing.T) {
	page := []byte(protocolPage(t))
	for _, limit := range []struct {
		n    int
		unit string
	}{
		{wire.HeaderValueBytesMax, " bytes"},
		{saga.CodeBytesMax, " bytes at most, for programs"},
		{saga.ReasonBytesMax, " bytes at most, for people"},
		{wire.ContentTypeBytesMax, " bytes at most |"},
		{saga.InputBytesMax, " bytes, a result "},
		{saga.ResultBytesMax, ", a body "},
		{wire.BodyBytesMax, "."},
		{wire.NumberMax, "."},
		{wire.PrefixBytesMax, " bytes at\nmost"},
	} {
		want := []byte(strconv.Itoa(limit.n) + limit.unit)
		if !bytes.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
