// Package bank is the business of the demonstrations and tests: accounts with integer cents in a database of
// their own, and a participant with an action of every kind.
//
//	action    kind       try                            confirm            cancel
//	debit     tcc        balance → held                 held → away        held → balance
//	credit    tcc        incoming +                     incoming → balance incoming −
//	withdraw  saga       balance −                      —                  balance +
//	deposit   saga       balance +                      —                  balance −
//	charge    pivot      balance −                      —                  —
//	grant     pivot      balance +                      —                  —
//	payout    retriable  balance +                      —                  —
//	collect   retriable  balance −                      —                  —
//
// The same actions with the name external-… go through a gateway outside of the local transaction (U4).
//
// The Σ(balance + held) of all banks together is constant and held and incoming are 0 when nothing is under way
// (I-12). No balance is ever negative: a try that would make it so refuses.
//
// Every run of a handler appends a row to bank.effects, which has no key: an operation whose effect happened
// twice shows there (I-3), and nothing but the barrier prevents it.
//
// An input's Wish makes a handler refuse, fail, panic or take long, so that a scenario can be written as data.
package bank
