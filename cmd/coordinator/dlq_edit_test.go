package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What was proposed is asked for again as it is, byte for byte (S1.5). The server is one of its own, whose dead letter has
// a proposal, and then none any more.
func TestEditAgain(t *testing.T) {
	t.Parallel()
	edit, sent := `{"revision":2,"content_sha256":"ab","reserved":true,"input":{"cents": 5.0}}`, ""
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			sent = r.URL.Path + " " + r.Header.Get("If-Match") + " " + string(body)
			rw.WriteHeader(http.StatusAccepted)
			return
		}
		_, _ = rw.Write([]byte(`{"id":"` + someID + `","version":7,"status":"open","edit":` + edit + `,"message":{"subject":"s","headers":{},"body_base64":"e30="}}`))
	}))
	t.Cleanup(server.Close)
	run := func(args ...string) result {
		return command(t, nil, append([]string{"dlq", "edit", someID, "--reason", "no answer", "--yes", "--server", server.URL}, args...)...)
	}
	run("--again").want(t, exitOK, `{"cents": 5.0}`, "now somebody else approves it")
	if !strings.HasPrefix(sent, "/v1/dead-letters/"+someID+`/edit "7" `) || !strings.Contains(sent, `"input":{"cents": 5.0}`) {
		t.Errorf("sent %s", sent)
	}
	run("--again", "--input", "-").want(t, exitUsage, "do not go together")
	run().want(t, exitUsage, "no input")
	edit = "null"
	run("--again").want(t, exitUsage, "nothing was proposed")
}
