// Package asyncapi holds messages to what docs/asyncapi.json says of them. It is for tests. Of JSON Schema it knows what the
// document uses, and refuses everything else, so that nothing in the document goes unchecked.
package asyncapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Document is the document, read.
type Document struct {
	Channels   map[string]channel `json:"channels"`
	Components struct {
		Messages map[string]message `json:"messages"`
		Schemas  map[string]*Schema `json:"schemas"`
	} `json:"components"`
}

type channel struct {
	Address string `json:"address"`
}

type message struct {
	Headers *Schema `json:"headers"`
	Payload *Schema `json:"payload"`
}

// Schema is the part of JSON Schema that the document uses.
type Schema struct {
	Ref         string             `json:"$ref"`
	Type        string             `json:"type"`
	Description string             `json:"description"`
	Pattern     string             `json:"pattern"`
	Enum        []string           `json:"enum"`
	Const       *string            `json:"const"`
	Minimum     *int64             `json:"minimum"`
	Properties  map[string]*Schema `json:"properties"`
	Required    []string           `json:"required"`
	Additional  json.RawMessage    `json:"additionalProperties"` // absent, false, or a schema
}

// UnmarshalJSON reads a schema, and refuses members that Check does not know.
func (s *Schema) UnmarshalJSON(b []byte) error {
	type plain Schema
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(s))
}

// Read reads the document.
func Read(path string) (*Document, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d Document
	return &d, json.Unmarshal(b, &d)
}

// Check reports what is wrong with a message of a channel. The subjects begin with a prefix of their own. In messages that
// are ours all headers and members have to be in the document; others may have more.
func (d *Document) Check(channelName, messageName, prefix, subject string, header map[string][]string, body []byte, ours bool) error {
	address := regexp.QuoteMeta(d.Channels[channelName].Address)
	address = regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(address, `[^.]+`)
	address = "^" + strings.Replace(address, "saga", regexp.QuoteMeta(prefix), 1) + "$"
	if !regexp.MustCompile(address).MatchString(subject) {
		return fmt.Errorf("the subject %s is none of %s", subject, d.Channels[channelName].Address)
	}
	m := d.Components.Messages[messageName]
	headers := map[string]any{}
	for name, values := range header {
		if len(values) != 1 {
			return fmt.Errorf("header %s occurs %d times", name, len(values))
		}
		headers[name] = values[0]
	}
	err := d.check(m.Headers, "headers", headers, ours)
	if m.Payload.Ref == "" || len(body) == 0 {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	if bodyErr := decoder.Decode(&v); bodyErr != nil {
		return errors.Join(err, bodyErr)
	}
	return errors.Join(err, d.check(m.Payload, "body", v, ours))
}

func (d *Document) check(s *Schema, at string, v any, ours bool) error {
	if s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	if s == nil {
		return fmt.Errorf("%s: the schema is not in the document", at)
	}
	switch v := v.(type) {
	case map[string]any:
		return d.checkObject(s, at, v, ours)
	case string:
		return s.checkString(at, v)
	case json.Number:
		n, err := v.Int64()
		if s.Type != "" && (s.Type != "integer" || err != nil || s.Minimum != nil && n < *s.Minimum) {
			return fmt.Errorf("%s: %s", at, v)
		}
	case bool:
		if s.Type != "" && s.Type != "boolean" {
			return fmt.Errorf("%s: %t", at, v)
		}
	default:
		if s.Type != "" {
			return fmt.Errorf("%s: %v", at, v)
		}
	}
	return nil
}

func (s *Schema) checkString(at, v string) error {
	switch {
	case s.Type == "" && s.Enum == nil && s.Const == nil:
		return nil
	case s.Type != "string", s.Enum != nil && !slices.Contains(s.Enum, v), s.Const != nil && *s.Const != v,
		s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v), !utf8.ValidString(v):
		return fmt.Errorf("%s: %q", at, v)
	}
	return nil
}

func (d *Document) checkObject(s *Schema, at string, v map[string]any, ours bool) error {
	if s.Type == "" {
		return nil // any JSON
	}
	if s.Type != "object" {
		return fmt.Errorf("%s is an object", at)
	}
	var errs []error
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			errs = append(errs, fmt.Errorf("%s: no %s", at, name))
		}
	}
	var others *Schema
	if len(s.Additional) > 0 && string(s.Additional) != "false" {
		others = &Schema{}
		if err := json.Unmarshal(s.Additional, others); err != nil {
			return err
		}
	}
	closed := string(s.Additional) == "false" || ours && s.Properties != nil && others == nil
	for name, value := range v {
		property := s.Properties[name]
		if property == nil {
			property = others
		}
		switch {
		case property != nil:
			errs = append(errs, d.check(property, at+"."+name, value, ours))
		case closed:
			errs = append(errs, fmt.Errorf("%s: %s is not in the document", at, name))
		}
	}
	return errors.Join(errs...)
}
