package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// How data is printed.
const (
	formatTable    = "table"
	formatJSON     = "json"
	formatYAML     = "yaml"
	formatMarkdown = "markdown"
)

// choice is the value of a flag that has few values.
type choice struct {
	value   *string
	allowed []string
}

// choiceFlag adds a flag that takes one of a few values, and completes them.
func choiceFlag(cmd *cobra.Command, value *string, name, short string, allowed []string, usage string) {
	cmd.Flags().VarP(choice{value, allowed}, name, short, usage+": "+strings.Join(allowed, ", "))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// String returns the value.
func (c choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

// Set checks and takes a value.
func (c choice) Set(s string) error {
	for _, a := range c.allowed {
		if a == s {
			*c.value = s
			return nil
		}
	}
	return fmt.Errorf("use one of %s", strings.Join(c.allowed, ", "))
}

// Type is what --help shows.
func (c choice) Type() string { return "string" }

// output prints data, to where the user wants it and as the user wants it.
type output struct {
	w      io.Writer
	format string
	style  style
}

func newOutput(cmd *cobra.Command, format string) output {
	w := cmd.OutOrStdout()
	return output{w: w, format: format, style: styleOf(w)}
}

// data prints a value: as a table made by fill, or as it is in JSON or YAML.
func (o output) data(v any, fill func(*table)) error {
	if o.format == formatTable {
		t := &table{style: o.style}
		fill(t)
		return t.write(o.w)
	}
	b, err := o.encode(v)
	if err != nil {
		return err
	}
	_, err = o.w.Write(b)
	return err
}

func (o output) encode(v any) ([]byte, error) {
	if o.format == formatYAML {
		return encodeYAML(v)
	}
	return encodeJSON(v, "  ")
}

// event prints one of a stream of values: lines of text, a line of JSON, or a document of YAML.
func (o output) event(v any, lines []string) error {
	var b []byte
	var err error
	switch o.format {
	case formatTable:
		for _, l := range lines {
			b = append(append(b, l...), '\n')
		}
	case formatYAML:
		b, err = encodeYAML(v)
		b = append([]byte("---\n"), b...)
	default:
		b, err = encodeJSON(v, "")
	}
	if err != nil {
		return err
	}
	_, err = o.w.Write(b)
	return err
}

// encodeJSON writes a value as JSON whose strings cannot command a terminal.
func encodeJSON(v any, indent string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the output: %w", err)
	}
	return escapeEncoded(buf.Bytes(), func(b []byte, r rune) []byte {
		for _, unit := range appendUTF16(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
		return b
	}), nil
}

func appendUTF16(units []uint16, r rune) []uint16 {
	const first, surrogates = 0x10000, 0xd800
	if r < first {
		return append(units, uint16(r))
	}
	r -= first
	return append(units, uint16(surrogates+r>>10), uint16(0xdc00+r&0x3ff))
}

// encodeYAML writes a value as YAML, with the members and numbers that its JSON has, in the same order.
func encodeYAML(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the output: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return nil, fmt.Errorf("encode the output: %w", err)
	}
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(node), enc.Close()); err != nil {
		return nil, fmt.Errorf("encode the output: %w", err)
	}
	return escapeEncoded(buf.Bytes(), func(b []byte, r rune) []byte { return fmt.Appendf(b, `\U%08x`, r) }), nil
}

// yamlNode turns the next JSON value into a node.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for dec.More() {
			child, err := yamlNode(dec) // of an object: keys and values in turn
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := dec.Token() // the closing one
		return n, err
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}
		if strings.ContainsFunc(t, unprintable) {
			n.Style = yaml.DoubleQuotedStyle // where escapes are understood
		}
		return n, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}, nil
}

// escapeEncoded replaces, in JSON or YAML, what a terminal could obey or hide: controls beyond ASCII's, which
// the encoders escape, and marks that change the direction of text. They occur in quoted strings only.
func escapeEncoded(text []byte, escape func([]byte, rune) []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r >= 0x7f && unprintable(r) || r == utf8.RuneError && size == 1 {
			out = escape(out, r)
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}

// unprintable reports whether a terminal could do something else with the rune than show it: controls, escape
// sequences, bidirectional and invisible marks.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }
