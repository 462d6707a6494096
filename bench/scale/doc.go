// Command scale measures what growth costs a coordinator: ten million finished transactions in its tables (P6), a hundred
// thousand that wait and a restart among them (P7, P8), and several coordinators on one database (P10).
//
// Everything is compared within one run, in pairs whose order changes, so that what changes on the machine meanwhile meets
// both sides. The coordinators are processes of their own; PostgreSQL is durable; clients, participants and NATS are in
// this process. P7 and P8 are TestBacklog of the end-to-end tests (make backlog), whose verdicts are shown with the others.
package main
