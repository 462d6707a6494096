package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

// What publishing can end with gets its kind, once, and keeps what is behind it.
func TestPublishError(t *testing.T) {
	api := func(status int, code jetstream.ErrorCode) error {
		return &jetstream.APIError{Code: status, ErrorCode: code, Description: "d"}
	}
	for _, c := range []struct{ err, want error }{
		{api(400, 10054), ErrTooLarge},
		{api(400, 10097), ErrTooLarge},
		{nats.ErrMaxPayload, ErrTooLarge},
		{api(400, 10165), ErrInvalid},
		{api(400, 10166), ErrInvalid},
		{nats.ErrBadSubject, ErrInvalid},
		{nats.ErrBadHeaderMsg, ErrInvalid},
		{nats.ErrHeadersNotSupported, ErrInvalid},
		{api(503, 10077), ErrFull},
		{api(429, 10167), ErrFull},
		{api(503, 10023), ErrFull},
		{api(500, 10047), ErrFull},
		{api(400, 10002), ErrFull},
		{jetstream.ErrNoStreamResponse, ErrNoStream},
		{nats.ErrNoResponders, ErrNoStream},
		{jetstream.ErrAsyncPublishTimeout, ErrTimeout},
		{jetstream.ErrTooManyStalledMsgs, ErrTimeout},
		{nats.ErrDisconnected, ErrDisconnected},
		{nats.ErrReconnectBufExceeded, ErrDisconnected},
		{nats.ErrStaleConnection, ErrDisconnected},
		{io.EOF, ErrDisconnected},
		{jetstream.ErrJetStreamPublisherClosed, ErrClosed},
		{nats.ErrConnectionClosed, ErrClosed},
		{nats.ErrConnectionDraining, ErrClosed},
		{api(500, 10051), nil},
		{nats.ErrPermissionViolation, nil},
		{errors.New("something"), nil},
	} {
		got := publishError(fmt.Errorf("outer: %w", c.err))
		if !errors.Is(got, c.err) {
			t.Errorf("%v is not behind %v", c.err, got)
		}
		for _, kind := range kinds {
			if errors.Is(got, kind) != errors.Is(c.want, kind) {
				t.Errorf("%v: is %v: %t", c.err, kind, errors.Is(got, kind))
			}
		}
		if again := publishError(got); c.want != nil && again.Error() != got.Error() {
			t.Errorf("%v became %v", got, again)
		}
	}
	for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded, ErrClosed, ErrDisconnected} {
		if got := publishError(err); !errors.Is(got, err) || err != nil && got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
		}
	}
	seen := map[fault.Cause]error{}
	for _, kind := range kinds {
		cause := fault.CauseOf(kind)
		if other := seen[cause]; other != nil || cause == fault.Unrecognised {
			t.Errorf("%v and %v are both %s", kind, other, cause)
		}
		seen[cause] = kind
	}
}
