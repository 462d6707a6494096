// Package notify tells people what they have to know of (E5). It owns notices, webhooks and deliveries.
//
// A notice is stored in the database transaction of what it tells of, so none is missed. A Sender makes deliveries of
// notices, one for each webhook that wants its kind, and at most one a minute for a kind and group: the first at once,
// and what follows within a minute together. A delivery is pending until its target answers 2xx (delivered) or its
// attempts are used up (failed). It is at least once: the id, which is the same in every attempt, tells copies apart.
//
// Each target has at most one attempt in flight in a process and its own goroutine for it, so that one that is dead
// makes no other wait. What targets may be is checked on the address that is connected to.
package notify
