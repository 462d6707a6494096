package process_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/bench/process"
)

func start(t *testing.T, script string) *process.Child {
	t.Helper()
	c, err := process.Start("/bin/sh", []string{"WORD=hello"}, "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

func TestStopAndKillMayBeRepeated(t *testing.T) {
	t.Parallel()
	c := start(t, "exec sleep 600")
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Kill()
	}
}

func TestAwaitHTTP(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if err := start(t, "exec sleep 600").AwaitHTTP(t.Context(), server.URL); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	address, err := process.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = start(t, "echo $WORD; exit 3").AwaitHTTP(t.Context(), "http://"+address)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "hello") {
		t.Errorf("of a process that ended: %v", err)
	}
}

func TestRunSaysWhatWasPrinted(t *testing.T) {
	t.Parallel()
	if err := process.Run(t.Context(), "/bin/sh", nil, "-c", "exit 0"); err != nil {
		t.Error(err)
	}
	err := process.Run(t.Context(), "/bin/sh", nil, "-c", "echo broken; exit 1")
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
}
