// Command peers measures Sagacity beside its peers, on one machine, one PostgreSQL, with the same clients and the
// same statements in the participants' database. Runs alternate: what changes on the machine meanwhile meets all.
//
// DTM (github.com/dtm-labs/dtm) is driven by its own Go client and keeps its state in PostgreSQL, in both of its
// settings: UpdateBranchSync 1 makes the state of branches durable, which is what Sagacity always does and so the
// fair comparison; 0 is the default of its releases. DBOS Transact (github.com/dbos-inc/dbos-transact-golang) is a
// library that runs the steps in the caller's process, without messages to participants; its figures are shown,
// not compared.
//
// What is not comparable: Sagacity sends commands through NATS, DTM calls participants over HTTP; DTM's client drives
// the tries of a TCC itself, one after the other, while Sagacity runs them side by side.
package main
