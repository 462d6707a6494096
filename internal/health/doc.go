// Package health lets a process say whether it can do its work, and asks a process that does: for supervisors and
// container engines, whose images have no other program to ask with.
//
// GET /healthz says that the process answers: 200. GET /readyz says whether it can work now: 200, or 503.
package health
