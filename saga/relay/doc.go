// Package relay holds what the relay of an outbox decides: what the answer to a publish means for its row, when a row
// may be published by somebody else, and how much is taken at a time. It is pure: values in, values out; time and
// randomness are arguments. Package outbox reads, publishes and writes as it says, and the simulator runs it against
// a modelled bus.
//
// It owns nothing. What it guarantees, together with whoever obeys it:
//
//   - A row is deleted only when its message was acknowledged or its time is over (C1, C2).
//   - A row that is neither is claimable again, sooner or later, whatever happened to the process that held it: claims
//     end, and a pass over the table always begins again at its start (C2).
//   - A message that is not acknowledged makes no other one wait: each row has its own delay (C5, C12).
package relay
