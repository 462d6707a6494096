// Package outage is the report on an experiment (X5): a participant under steady load is stopped and comes back, once with
// each strategy of retries. It is pure: figures go in, a table and a plot come out. The experiment is in package e2e.
package outage
