package main

import (
	"strings"
	"testing"
)

// A webhook is registered, listed, tested and removed on the command line.
func TestWebhookCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if r := w.run("webhook", "list", "-o", "json").want(t, exitOK); r.stdout != "[]\n" {
		t.Errorf("the list of none is %s", r.stdout)
	}
	w.run("webhook", "create", "--reason", "x", "--yes").want(t, exitUsage, "give --url")
	w.run("webhook", "create", "--url", "https://example.com", "--yes").want(t, exitUsage, "--reason")
	w.run("webhook", "create", "--url", "http://example.com", "--reason", "x", "--yes").want(t, exitFailed, "invalid_webhook_url")
	made := w.run("webhook", "create", "--url", "https://hooks.invalid/x", "--kind", "paused,dead_letter", "--reason", "x", "--yes", "-o", "json").want(t, exitOK)
	id := memberOf(t, made.stdout, "id")
	if !strings.HasPrefix(memberOf(t, made.stdout, "secret"), "whsec_") {
		t.Error("it prints no secret")
	}
	equal(t, "webhook list", w.run("webhook", "list").want(t, exitOK).stdout,
		`ID                                    KINDS               SINCE                     BY         URL
<id-------------------------------->  dead_letter,paused  <time------------------>  anonymous  https://hooks.invalid/x
`)
	w.run("webhook", "test", id, "--reason", "x").want(t, exitOK, "it will be told")
	if r := w.run("webhook", "deliveries", id, "-o", "json").want(t, exitOK); strings.Count(r.stdout, `"attempts": `) != 1 {
		t.Errorf("deliveries are %s", r.stdout)
	}
	w.run("webhook", "deliveries", id, "--status", "lost").want(t, exitUsage, "pending")
	w.run("webhook", "delete", "x", "--reason", "x", "--yes").want(t, exitUsage, "is not the ID of a webhook")
	w.run("webhook", "delete", id, "--reason", "x").want(t, exitUsage, "there is no terminal to ask on")
	if r := w.run("webhook", "delete", id, "--reason", "x", "--yes").want(t, exitOK); strings.Contains(r.stdout, "whsec_") {
		t.Error("it prints the secret again")
	}
	w.run("webhook", "test", id, "--reason", "x").want(t, exitFailed, "not_found")
}
