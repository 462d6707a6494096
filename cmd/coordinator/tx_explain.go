package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newTxExplain(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "explain ID", Short: "Say why a transaction waits, what happens next and what can be done", ValidArgsFunction: r.completeTransactions,
		Long: "explain says in sentences what state a transaction is in, why it waits, what happens next by itself, and what can\n" +
			"be done about it. It changes nothing.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := transactionArg(cmd, args)
			if err != nil {
				return err
			}
			e, err := r.client.Explain(cmd.Context(), id)
			if err != nil {
				return r.explain("explain transaction "+id.String(), err)
			}
			out := newOutput(cmd, r.format)
			if out.format != formatTable {
				return out.data(e, nil)
			}
			_, err = io.WriteString(out.w, explanationText(&e, out.style, columnsOf(out.w)))
			return err
		},
	}
}

// explanationText is what people read. Sentences are wrapped where columns is not zero.
func explanationText(e *client.Explanation, s style, columns int) string {
	var b strings.Builder
	section := func(head string, sentences []string) {
		if len(sentences) == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.paint(bold, head) + "\n")
		for _, sentence := range sentences {
			for i, l := range wrap(printable(sentence), columns-2) {
				b.WriteString([]string{"- ", "  "}[min(i, 1)] + l + "\n")
			}
		}
	}
	section(fmt.Sprintf("TRANSACTION %s", e.ID), e.State)
	section("WHY IT WAITS", texts(e.Waits, func(w *client.Waiting) string { return w.Text }))
	section("WHAT HAPPENS NEXT", texts(e.Next, func(u *client.Upcoming) string { return u.Text }))
	section("WHAT CAN BE DONE", texts(e.Options, func(o *client.Option) string { return o.Text + howTo(e.ID, o) }))
	return b.String()
}

// howTo names the command that does it.
func howTo(id saga.ID, o *client.Option) string {
	switch {
	case o.Action == "replay" && o.Changes && o.DeadLetterID != uuid.Nil:
		return fmt.Sprintf(" Command: coordinator dlq replay %s --reason TEXT", o.DeadLetterID)
	case o.Action == "discard" && o.Changes && o.DeadLetterID != uuid.Nil:
		return fmt.Sprintf(" Command: coordinator dlq discard %s --reason TEXT", o.DeadLetterID)
	case o.Action == "resolve" && o.Changes:
		return fmt.Sprintf(" Command: coordinator tx resolve %s --reason TEXT", id)
	case o.Action == "cancel" && o.Changes:
		return fmt.Sprintf(" Command: coordinator tx cancel %s --reason TEXT", id)
	}
	return ""
}

func texts[T any](list []T, of func(*T) string) []string {
	all := make([]string, 0, len(list))
	for i := range list {
		all = append(all, of(&list[i]))
	}
	return all
}

// columnsOf returns the width of a terminal, or 0 where there is none.
func columnsOf(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// wrap breaks text between words so that lines have at most so many columns; not at all if that is too few.
func wrap(text string, columns int) []string {
	const columnsMin = 20
	if columns < columnsMin {
		return []string{text}
	}
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(text) {
		if current != "" && runewidth.StringWidth(current)+1+runewidth.StringWidth(word) > columns {
			lines = append(lines, current)
			current = ""
		}
		if current != "" {
			current += " "
		}
		current += word
	}
	return append(lines, current)
}
