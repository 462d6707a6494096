// Package sabotage switches single safeguards off, so that tests and demonstrations can show that something
// notices. The demonstrations are the banks of the commands participant and coordinator dev, with the flag
// --sabotage; the coordinator itself and the SDK never import it.
package sabotage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The safeguards of the barrier's SQL.
const (
	Tombstone    = "tombstone"     // a null cancel leaves no row: the try that comes later runs
	StoredReply  = "stored-reply"  // a repeated operation runs user code again
	ContentCheck = "content-check" // other content under the same key is not noticed
)

// without holds what stands in for a safeguard's block: SQL that does harm by leaving out, and that otherwise
// works.
var without = map[string]string{
	Tombstone: `DELETE FROM saga.barrier b WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;`,
	StoredReply: `IF v.replayed THEN
        UPDATE saga.barrier b SET state = CASE p_phase WHEN 'try' THEN 'entered' ELSE 'tried' END
         WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;
        v.verdict := 'run';
        v.replayed := false;
    END IF;`,
	ContentCheck: `NULL;`,
}

// Barrier returns the barrier's SQL with one safeguard switched off. It is an error if the safeguard is not
// known, or if its block is not in sql exactly once.
func Barrier(sql, name string) (string, error) {
	harm, ok := without[name]
	if !ok {
		return "", fmt.Errorf("sabotage: no safeguard %q, there are %s", name,
			strings.Join(slices.Sorted(maps.Keys(without)), ", "))
	}
	begin, end := "-- safeguard: "+name+"\n", "-- end safeguard\n"
	if n := strings.Count(sql, begin); n != 1 {
		return "", fmt.Errorf("sabotage: the SQL holds %q %d times, want once", strings.TrimSpace(begin), n)
	}
	before, rest, _ := strings.Cut(sql, begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("sabotage: the block of safeguard %q has no %q", name, strings.TrimSpace(end))
	}
	return before + harm + "\n" + after, nil
}
