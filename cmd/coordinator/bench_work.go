package main

import (
	"fmt"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// work is a kind of transaction that bench runs.
type work struct {
	name  string
	input func(n int64) string // members of the submission beside the definition
	def   *saga.Definition
}

// The banks of the work, and what is in each. Transaction n uses account n in every bank, so that clients do
// not queue for one row.
var bankNames = []string{"bank-a", "bank-b", "bank-c"}

const (
	benchAccountsMax  = 1000
	benchBalanceCents = 1_000_000_000
)

func benchAccounts() []string {
	ids := make([]string, benchAccountsMax)
	for i := range ids {
		ids[i] = accountName(int64(i))
	}
	return ids
}

func accountName(n int64) string { return fmt.Sprintf("account-%03d", n%benchAccountsMax) }

// moves takes two cents from an account of the first bank and gives one to each of the others.
func moves(take, give, giveToo string) func(n int64) string {
	return func(n int64) string {
		account := accountName(n)
		return fmt.Sprintf(`"inputs":{%q:{"account":%q,"cents":2},%q:{"account":%q,"cents":1},%q:{"account":%q,"cents":1}}`,
			take, account, give, account, giveToo, account)
	}
}

var works = map[string]work{
	"noop": {
		name:  "noop",
		input: func(n int64) string { return fmt.Sprintf(`"input":{"order":%d}`, n) },
		def: saga.Define("bench-noop").Saga("first", "noop", "nothing").Saga("second", "noop", "nothing").
			Saga("third", "noop", "nothing").MustBuild(),
	},
	"bank": {
		name:  "bank",
		input: moves("withdraw", "deposit-b", "deposit-c"),
		def: saga.Define("bench-bank").Saga("withdraw", bankNames[0], bank.ActionWithdraw).
			Saga("deposit-b", bankNames[1], bank.ActionDeposit).Saga("deposit-c", bankNames[2], bank.ActionDeposit).MustBuild(),
	},
	"tcc": {
		name:  "tcc",
		input: moves("debit", "credit-b", "credit-c"),
		def: saga.Define("bench-tcc").TCC("debit", bankNames[0], bank.ActionDebit, saga.Root()).
			TCC("credit-b", bankNames[1], bank.ActionCredit, saga.Root()).
			TCC("credit-c", bankNames[2], bank.ActionCredit, saga.Root()).MustBuild(),
	},
}

// workNames returns the kinds of work in the order in which they are measured.
func workNames() []string { return []string{"noop", "bank", "tcc"} }

// body returns the submission of transaction n.
func (w work) body(n int64) []byte {
	return fmt.Appendf(nil, `{"definition":%s,%s}`, w.def.JSON(), w.input(n))
}
