// Package bus is the only adapter to NATS JetStream, used by the coordinator, the outbox and the SDK.
//
// It owns the four streams of a prefix, their settings and those of the durable consumers, and nothing
// durable besides: JetStream is a fast channel that may lose, repeat and reorder (C1).
//
// # Guarantees
//
//   - Every setting of a stream or consumer is spelled out, checked at start, and restored when the
//     stream, the consumer or the whole store is lost (C8). A setting that the server cannot change in
//     place is a *SettingError.
//   - Publish calls back exactly once per message. A nil error means that a PubAck came: a hint that the
//     message is stored, never evidence. Any error leaves open whether the message was stored.
//   - At most PublishInFlightMax messages wait for a PubAck, and at most Consumer.MaxAckPending messages
//     are in the hands of a handler.
//   - Consume hands over every message that its consumer gets, one call at a time, until its context
//     ends; then it takes no more, and waits for what is in hand.
//
// # Failure
//
// The connection is re-established for ever, with jitter. While it is down Publish fails at once with
// ErrDisconnected. After a reconnect, and when a publish finds no stream, the streams are checked in the
// background, at most once per second. A consumer that is lost is noticed by an answer of the server or
// by two missing heartbeats, and is made again with backoff.
package bus
