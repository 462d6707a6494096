package fault

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// Every cause that the source declares has a class, and none is Unknown while nothing was sent.
func TestClasses(t *testing.T) {
	declared := causesInSource(t)
	if len(declared) != len(classes)-1 {
		t.Errorf("%d causes are declared, %d have a class", len(declared), len(classes)-1)
	}
	for _, cause := range declared {
		class, ok := classes[cause]
		if !ok {
			t.Errorf("%s has no class", cause)
		}
		if got := cause.Class(Sent); got != class || got == "" {
			t.Errorf("%s after sending: %q", cause, got)
		}
		switch held := cause.Class(Held); {
		case class == Unknown && held != Transient, class != Unknown && held != class:
			t.Errorf("%s before sending: %s", cause, held)
		}
		if cause.Inherent() && class != Deterministic {
			t.Errorf("%s lies in the request, and is %s", cause, class)
		}
	}
	if got := Cause("new").Class(Sent); got != Unknown {
		t.Errorf("a cause that is not known is %s", got)
	}
	if Of(nil, Sent) != "" || Of(nil, Held) != "" || CauseOf(nil) != "" {
		t.Error("no error has a class")
	}
}

func causesInSource(t *testing.T) (causes []Cause) {
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Cause" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			causes = append(causes, Cause(text))
		}
		return true
	})
	return causes
}

func TestNew(t *testing.T) {
	full := New(Exhausted, "the queue is full")
	err := fmt.Errorf("publish: %w: %w", full, errors.New("maximum messages per subject exceeded"))
	if !errors.Is(err, full) || errors.Is(err, New(Exhausted, "the queue is full")) {
		t.Errorf("%v does not match itself only", err)
	}
	if CauseOf(err) != Exhausted || Of(err, Sent) != Transient || full.Error() != "the queue is full" {
		t.Errorf("%v: %s", err, CauseOf(err))
	}
}
