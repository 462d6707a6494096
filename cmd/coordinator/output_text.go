package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// printable returns text from elsewhere (reasons, codes, names) so that it cannot command a terminal: what a
// terminal could obey or hide is escaped as in Go source, and it is one line.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unprintable(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// printableLines is printable for text whose line breaks and tabs are wanted.
func printableLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\t", "  "), "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// clip shortens text to a number of columns.
func clip(s string, columns int) string { return runewidth.Truncate(printable(s), columns, "…") }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// style is how text looks on a terminal. The zero value adds nothing.
type style struct{ colours bool }

// styleOf returns colours for a terminal, unless the user does not want them (https://no-color.org).
func styleOf(w io.Writer) style {
	return style{colours: isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

const (
	green  = "32"
	red    = "31"
	yellow = "33"
	bold   = "1"
)

func (s style) paint(colour, text string) string {
	if !s.colours || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// colourOf returns the colour of a status, result, state or outcome.
func colourOf(word string) string {
	switch word {
	case "committed", "succeeded", "done", "closed":
		return green
	case "cancelled", "failed", "refused", "dead", "open":
		return red
	case "unknown", "suspended", "resolved", "held", "hanging", "given_up", "replaying", "cancelling":
		return yellow
	}
	return ""
}

// table is text in columns. Cells are escaped when they are added.
type table struct {
	style style
	lines []line
}

type line struct {
	cells []string
	head  bool
}

// head adds a line of column names, after an empty one unless it is the first.
func (t *table) head(names ...string) {
	if len(t.lines) > 0 {
		t.lines = append(t.lines, line{})
	}
	t.lines = append(t.lines, line{cells: names, head: true})
}

// row adds a line.
func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	t.lines = append(t.lines, line{cells: cells})
}

// field adds a line with a name and a value, unless the value is empty.
func (t *table) field(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

// write writes the lines. Columns are as wide as the widest cell between two heads.
func (t *table) write(w io.Writer) error {
	var b strings.Builder
	for start := 0; start < len(t.lines); {
		end := start + 1
		for end < len(t.lines) && !t.lines[end].head {
			end++
		}
		t.writeBlock(&b, t.lines[start:end])
		start = end
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) writeBlock(b *strings.Builder, lines []line) {
	var widths []int
	for _, l := range lines {
		for i, c := range l.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(c))
		}
	}
	for _, l := range lines {
		var text strings.Builder
		pad := 0
		for i, c := range l.cells {
			text.WriteString(strings.Repeat(" ", pad))
			colour := colourOf(c)
			switch {
			case l.head:
				colour = bold
			case strings.HasSuffix(c, suspendedMark):
				colour = yellow
			}
			text.WriteString(t.style.paint(colour, c))
			pad = widths[i] - runewidth.StringWidth(c) + 2
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}

// timeText returns an instant for people: UTC, to the millisecond; nothing for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}
