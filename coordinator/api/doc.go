// Package api is the coordinator's HTTP API: /v1, its errors and its OpenAPI document. docs/api.md describes
// it for callers.
//
// It owns the forms of requests and answers and decides nothing: every call is one call of package
// coordinator or of its Admin. Who calls is what Config.Authenticate says, never what a body says (I1).
//
// # Guarantees
//
//   - The answer to a submission is the stored one, byte for byte (I2). Users' JSON is embedded verbatim.
//   - No error repeats a value of the request. Every error is an RFC 9457 problem with a stable code.
//   - Bad input is never a 5xx. A 503 with code outcome_unknown says that nobody knows yet whether it
//     happened: ask again with the same key.
//   - Memory is bounded: header and body sizes, bodies held at one time, callers that wait.
//
// # When things fail
//
// A panic in a handler becomes a 500 without details; its stack goes to the log. When the database cannot be
// reached, answers are 503 with Retry-After. A wait that cannot be kept ends early with the transaction as it
// is: waiting is no promise.
package api
