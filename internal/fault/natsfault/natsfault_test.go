package natsfault_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/fault"
	"github.com/sagacity-tx/sagacity/internal/fault/natsfault"
)

var update = flag.Bool("update", false, "rewrite the golden file; read the difference line by line")

const apiErrors = "testdata/apierrors.golden"

// Every error that the JetStream API of the server we build with has, and its class when the request was sent. A
// new server with new codes changes the list, and somebody reads them.
func TestAPI(t *testing.T) {
	var lines []string
	for _, e := range server.ApiErrors {
		err := fmt.Errorf("outer: %w", &jetstream.APIError{Code: e.Code, ErrorCode: jetstream.ErrorCode(e.ErrCode), Description: e.Description})
		lines = append(lines, fmt.Sprintf("%d %d %-12s %-14s %s\n", e.ErrCode, e.Code, natsfault.CauseOf(err), natsfault.Of(err, fault.Sent), e.Description))
		if got := natsfault.Of(err, fault.Held); got == fault.Unknown {
			t.Errorf("%s: %s before anything was sent", e.Description, got)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(apiErrors, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(apiErrors)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Collect(strings.Lines(string(golden)))
	for _, line := range lines {
		if !slices.Contains(want, line) {
			t.Errorf("%s has not: %s", apiErrors, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("only %s has: %s", apiErrors, line)
		}
	}
}

func TestClientErrors(t *testing.T) {
	for cause, list := range map[fault.Cause][]error{
		fault.Rejected:     {nats.ErrBadSubject, nats.ErrBadHeaderMsg, nats.ErrHeadersNotSupported, nats.ErrInvalidMsg, jetstream.ErrBadRequest},
		fault.TooLarge:     {nats.ErrMaxPayload, jetstream.ErrStreamMessageExceedsMaximum},
		fault.Setup:        {nats.ErrAuthorization, nats.ErrPermissionViolation, nats.ErrSecureConnRequired},
		fault.Exhausted:    {nats.ErrMaxConnectionsExceeded, jetstream.ErrMaximumConsumersLimit},
		fault.NoReceiver:   {nats.ErrNoResponders, jetstream.ErrNoStreamResponse, jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound},
		fault.Unavailable:  {nats.ErrNoServers, nats.ErrConnectionReconnecting, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount},
		fault.Silent:       {nats.ErrTimeout, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs},
		fault.Lost:         {nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrStaleConnection, io.EOF, jetstream.ErrNoHeartbeat},
		fault.Closed:       {nats.ErrConnectionClosed, nats.ErrConnectionDraining, jetstream.ErrJetStreamPublisherClosed, jetstream.ErrConnectionClosed},
		fault.Ended:        {context.Canceled, context.DeadlineExceeded},
		fault.Unrecognised: {errors.New("something"), nats.ErrSlowConsumer},
		"":                 {nil},
	} {
		for _, err := range list {
			if err != nil {
				err = fmt.Errorf("outer: %w", err)
			}
			if got := natsfault.CauseOf(err); got != cause {
				t.Errorf("%v: %s, want %s", err, got, cause)
			}
			if got := natsfault.Of(err, fault.Sent); got != cause.Class(fault.Sent) {
				t.Errorf("%v: %s after sending", err, got)
			}
		}
	}
}

// T4: every error that package bus exports has a cause of its own; one that is added has to be added here.
func TestErrorsOfBus(t *testing.T) {
	values := map[string]struct {
		err   error
		cause fault.Cause
		sent  fault.Class
	}{
		"ErrClosed":       {bus.ErrClosed, fault.Closed, fault.Unknown},
		"ErrDisconnected": {bus.ErrDisconnected, fault.Lost, fault.Unknown},
		"ErrTimeout":      {bus.ErrTimeout, fault.Silent, fault.Unknown},
		"ErrNoStream":     {bus.ErrNoStream, fault.NoReceiver, fault.Transient},
		"ErrFull":         {bus.ErrFull, fault.Exhausted, fault.Transient},
		"ErrTooLarge":     {bus.ErrTooLarge, fault.TooLarge, fault.Deterministic},
		"ErrInvalid":      {bus.ErrInvalid, fault.Rejected, fault.Deterministic},
		"SettingError":    {&bus.SettingError{Err: io.EOF}, fault.Setup, fault.Deterministic},
	}
	names := exportedErrors(t, "../../bus")
	for _, name := range names {
		if _, ok := values[name]; !ok {
			t.Errorf("bus.%s is not classified", name)
		}
	}
	if len(names) != len(values) {
		t.Errorf("bus exports %v", names)
	}
	for name, v := range values {
		err := fmt.Errorf("outer: %w: %w", v.err, errors.New("behind it"))
		if cause, sent := fault.CauseOf(err), fault.Of(err, fault.Sent); cause != v.cause || sent != v.sent {
			t.Errorf("bus.%s: %s, %s, want %s, %s", name, cause, sent, v.cause, v.sent)
		}
		if natsfault.CauseOf(err) != v.cause || bus.Permanent(err) != v.cause.Inherent() {
			t.Errorf("bus.%s: %s, permanent %t", name, natsfault.CauseOf(err), bus.Permanent(err))
		}
	}
}

// exportedErrors returns the exported variables and types of a package whose names are those of errors.
func exportedErrors(t *testing.T, dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if strings.HasPrefix(name.Name, "Err") && d.Tok == token.VAR {
							names = append(names, name.Name)
						}
					}
				case *ast.TypeSpec:
					if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
						names = append(names, s.Name.Name)
					}
				}
			}
		}
	}
	return names
}
