package fault

import (
	"net/http"
	"testing"
)

// X1, U1: every status that HTTP has means one thing for a request that was sent.
func TestHTTP(t *testing.T) {
	want := map[Class][]int{
		"": {200, 201, 202, 203, 204, 205, 206, 207, 208, 226},
		Deterministic: {
			300, 301, 302, 303, 304, 305, 307, 308,
			400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422, 424, 426, 428, 431, 451,
			501, 505, 506, 508, 510, 511,
		},
		Transient: {408, 421, 423, 425, 429, 503, 507},
		Unknown:   {100, 101, 102, 103, 500, 502, 504},
	}
	classified := map[int]bool{}
	for class, list := range want {
		for _, status := range list {
			classified[status] = true
			if got := HTTP(status).Class(Sent); got != class {
				t.Errorf("%d %s: %q, want %q", status, http.StatusText(status), got, class)
			}
		}
	}
	for status := range 1000 {
		if http.StatusText(status) != "" && !classified[status] {
			t.Errorf("%d %s is not classified", status, http.StatusText(status))
		}
	}
	for status, class := range map[int]Class{0: Unknown, 299: "", 499: Deterministic, 520: Unknown, 599: Unknown, 999: Unknown} {
		if got := HTTP(status).Class(Sent); got != class {
			t.Errorf("%d: %q, want %q", status, got, class)
		}
	}
	for status := range 1000 {
		if got := HTTP(status).Class(Held); got == Unknown {
			t.Errorf("%d: %s before anything was sent", status, got)
		}
	}
	for status, cause := range map[int]Cause{401: Setup, 403: Rejected, 404: Rejected, 409: Rejected, 412: Rejected, 413: TooLarge, 422: Rejected, 429: Exhausted, 502: Lost, 503: Unavailable, 504: Silent} {
		if got := HTTP(status); got != cause {
			t.Errorf("%d: %s, want %s", status, got, cause)
		}
	}
}
