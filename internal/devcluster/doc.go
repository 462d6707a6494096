// Package devcluster runs a private PostgreSQL server and a private NATS server
// for one process: the whole infrastructure of `coordinator dev` and of the tests.
//
// It owns a state directory (given and kept, or ephemeral and removed at Stop), a
// runtime directory under the temporary directory that holds the PostgreSQL
// socket, one PostgreSQL child process, and one NATS server with JetStream inside
// this process.
//
// States: a Cluster is running from the return of Start until Stop, and never runs
// again. Its Postgres and NATS may be stopped and started any number of times in
// between; they keep their address, their credentials and, unless wiped, their data.
//
// Guarantees:
//
//   - Other local users cannot connect. PostgreSQL listens on a unix socket only,
//     in a directory of mode 0700, and asks for a random password (SCRAM). NATS
//     listens on 127.0.0.1 only and asks for a random user and password.
//   - PostgreSQL never runs as root: a root caller starts it as the user postgres,
//     or nobody where there is none.
//   - PostgreSQL ends with this process, also when this process is killed.
//   - A state directory is used by one cluster at a time.
//   - Two clusters, of one user or of several, do not disturb each other.
//   - Durable clusters keep PostgreSQL's default durability. Others turn fsync off:
//     they survive a crash of PostgreSQL, not one of the machine.
//
// On failure: Start either returns a running cluster or undoes everything it did
// and returns an error that names what failed, on what, and what to do. A killed
// process leaves its runtime directory behind; the next Start of the same user
// removes it. A PostgreSQL that dies by itself is logged and reported by
// Postgres.Done, and is not restarted: the caller decides.
package devcluster
