package participanttest

// replyChecks judge the headers of all replies of an action, whatever they answered. They come last and send nothing.
func replyChecks() []check {
	return []check{
		{
			name: "reply-repeats-command", rules: "U2, U3, S1.5",
			must: "Every reply repeats the revision and the content hash of its command: a reply about another revision or other content proves nothing, and is never merged.",
			fix: "Copy Saga-Revision and Saga-Content-Sha256 from the command into every reply, faults and retries included; " +
				"with the outcome state they are those recorded for the phase.",
			run: func(t *trial) { t.found(t.k.replies.takeUnlike()) },
		},
		{
			name: "reply-message-id", rules: "C3, B5",
			must: "Replies to different commands or attempts, or with different outcomes, have different message ids: JetStream drops a message whose id it has seen.",
			fix:  "Make a reply's Nats-Msg-Id of the Nats-Msg-Id of its command, which has the step, the phase, the verb and the attempt in it, then /reply/ and the outcome.",
			run:  func(t *trial) { t.found(t.k.replies.takeTwice()) },
		},
	}
}

// found takes over what was found out elsewhere; nil: nothing.
func (t *trial) found(wrong *Check) {
	if wrong != nil {
		t.lines, t.wrong = wrong.Sent, wrong
	}
}
