package main

import (
	"fmt"
	"strings"
)

// markdown returns the table for people.
func markdown(results []result) string {
	var b strings.Builder
	b.WriteString("| without | rule | noticed by | seconds |\n|---|---|---|---|\n")
	for _, r := range results {
		by := strings.Join(r.By, "; ")
		switch {
		case r.Error != "":
			by = "**not tried**"
		case !r.Caught:
			by = "**nothing**"
		}
		fmt.Fprintf(&b, "| %s | [%s](rules.md#%s) | %s | %.0f |\n", cell(r.Without), r.Rule, r.Rule, cell(by), r.Seconds)
	}
	return b.String()
}

// cell escapes what would end a cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
