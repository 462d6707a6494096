// Package participanttest is a torture suite for participants: it plays the coordinator, over NATS, and sends what a
// bad day sends: duplicates, reorderings, tries after their cancel, cancels without a try, other content under the
// same key, commands past their deadline, copies at the same time. It cuts replies off and has the participant
// killed. It judges by the replies and by what a probe of the caller says about the participant's own data.
//
//	participanttest.Run(t, participanttest.Config{
//		NATS: nc, Participant: "hotel",
//		Actions: []participanttest.Action{{Name: "book", Kind: saga.KindTCC, Input: room, Effects: count}},
//	})
//
// The participant runs as it always does, in this process or elsewhere, in any language: only NATS with JetStream
// (see NATS), the running participant and the probe are needed. Torture does the same without a *testing.T, and
// returns a Report. docs/testing.md is the guide.
//
// # Verdicts
//
// A check of an action is ok, WRONG, or left out because something that it needs was not given. Each names the rules
// (docs/rules.md) that it is about. Of what is WRONG the report says what was sent and in which order, what was
// expected, what came, and what to do about it. After the first wrong answer of a check the rest of that check is not
// run: it would prove nothing.
//
// # What it leaves behind
//
// Each check uses transactions of its own and cancels what it has left open; what is confirmed or final stays. The
// streams of the prefix are made if they are missing, and the replies are removed from theirs at the end. A prefix
// that a coordinator works on is refused.
//
// # What it cannot show
//
// That a participant passes proves that it has answered these commands well, once. Whether a handler does its work in
// the given transaction shows only if something is rolled back: give Action.Failing and Config.Restart. Retention,
// poison and the lease of an external effect whose process has died are not part of the suite.
package participanttest
