// Package client calls a coordinator's HTTP API.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	s, err := c.Submit(ctx, client.Submission{Definition: transfer, Input: order}, client.SubmitOptions{RequestID: order.ID})
//	tx, err := c.Wait(ctx, s.ID)
//
// # Unknown is not failed
//
// Every submission has a request id, made here if the caller gives none. A submission whose answer was lost is
// sent again with the same id and the same bytes, so it starts one transaction at most. When ctx ends before an
// answer came, the error is an *UnknownError: the transaction may exist. Submit again with the same request id,
// or look with FindByRequest. Only Result "failed" of a transaction means that no effect remains.
//
// # Errors
//
// What the coordinator answers is a *Problem, to be matched with errors.As and its Code; docs/api.md lists the
// codes. Reads and cancels are repeated while the coordinator cannot be reached; a replay is not, because its
// repetition could not be told from a second one.
//
// A Client has no states, needs no closing and may be used from any goroutine.
package client
