package saga_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

// However many deliveries a suspect has, the last two are alone, so that whoever ran beside a killer ends before it is
// blamed; and it is run no more often than it may be (S3: poison).
func TestSuspect(t *testing.T) {
	for begunMax, want := range map[int][]saga.RunAs{
		1: {saga.RunAlone, saga.RunNever, saga.RunNever},
		2: {saga.RunAlone, saga.RunAlone, saga.RunNever},
		3: {saga.RunBeside, saga.RunAlone, saga.RunAlone, saga.RunNever},
		5: {saga.RunBeside, saga.RunBeside, saga.RunBeside, saga.RunAlone, saga.RunAlone, saga.RunNever, saga.RunNever},
	} {
		for i, as := range want {
			if got := saga.Suspect(i+1, begunMax); got != as {
				t.Errorf("begun %d times of %d: %s, want %s", i+1, begunMax, got, as)
			}
			if beside := i+1 <= saga.BesideMax(begunMax); beside != (as == saga.RunBeside) {
				t.Errorf("begun %d times of %d: counted beside others: %t, but run %s", i+1, begunMax, beside, as)
			}
		}
	}
}
