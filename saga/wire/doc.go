// Package wire is the contract between the coordinator and its participants: how a saga.Command and a
// saga.Reply look as messages. It is pure; it opens no connection and reads no clock.
//
// It owns the subjects, the headers, the message ids (C3, B5), the reading of command bodies (S1.4) and the
// canonical form that a signature will cover. docs/protocol.md says the same for participants in other
// languages; golden files hold both, because a change breaks participants in the field.
//
// # Guarantees
//
//   - Whatever Encode accepts, Decode gives back: text byte for byte, even when it holds line breaks, NUL or
//     invalid UTF-8. What would not come back is refused by Encode, or cut as documented (Reason, Code), or
//     left out (a trace context that is none).
//   - Decode trusts nothing. It checks names, ids, numbers, sizes and a command's content hash, never
//     panics, and says in a *DecodeError which header is wrong.
//   - Bodies are never re-encoded: Command.Body and Payload.Data share the memory of Message.Data, which must
//     not be changed afterwards (S1.6).
//
// # Unknown headers
//
// Decode ignores headers that it does not know, and saga.Command has no place for them. They stay in Message:
// whoever passes a message on (relay, bridge, dead letter, replay) passes on the Message with all its
// headers, not one that was decoded and encoded again.
//
// # When decoding fails
//
// The value returned beside a *DecodeError holds every field that was valid. A participant can therefore
// answer an undecodable command with a fault if Answerable says so; else the message goes to the dead
// letters with its exact bytes (C5).
package wire
