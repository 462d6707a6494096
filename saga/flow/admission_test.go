package flow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga/flow"
)

var admissionStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// offer lets tenants submit evenly for some seconds, each so often per second, and returns how many were admitted.
// Every admitted submission is decided at once.
func offer(a *flow.Admission, from time.Time, seconds int, perSecond map[string]int) map[string]int {
	const tick = time.Millisecond
	admitted := map[string]int{}
	due := map[string]float64{}
	for i := range seconds * int(time.Second/tick) {
		now := from.Add(time.Duration(i) * tick)
		for _, name := range []string{"a", "b", "c"} {
			for due[name] += float64(perSecond[name]) * tick.Seconds(); due[name] >= 1; due[name]-- {
				if slot, as, _ := a.Admit(name, 100, now); as == flow.Admitted {
					admitted[name]++
					a.Release(slot)
				}
			}
		}
	}
	return admitted
}

// R3: a tenant alone gets the whole rate; one that stays within its share is never refused, whatever the others
// offer; two that offer too much get about the same; and the total is the rate.
func TestAdmissionShares(t *testing.T) {
	t.Parallel()
	const seconds = 20
	for _, c := range []struct {
		name      string
		policy    flow.AdmissionPolicy
		offered   map[string]int
		low, high map[string]int // admitted per second, on average
	}{
		{"below", flow.AdmissionPolicy{PerSecond: 100}, map[string]int{"a": 90}, map[string]int{"a": 89}, map[string]int{"a": 90}},
		{"alone", flow.AdmissionPolicy{PerSecond: 100}, map[string]int{"a": 1000}, map[string]int{"a": 100}, map[string]int{"a": 105}},
		{"slow", flow.AdmissionPolicy{PerSecond: 1}, map[string]int{"a": 100}, map[string]int{"a": 1}, map[string]int{"a": 1}},
		{"beside a flood", flow.AdmissionPolicy{PerSecond: 100}, map[string]int{"a": 1000, "b": 33}, map[string]int{"a": 66, "b": 32}, map[string]int{"a": 72, "b": 33}},
		{"two floods", flow.AdmissionPolicy{PerSecond: 100}, map[string]int{"a": 1000, "b": 1000}, map[string]int{"a": 33, "b": 33}, map[string]int{"a": 70, "b": 70}},
		{"own limit", flow.AdmissionPolicy{PerTenant: 10}, map[string]int{"a": 1000, "b": 5}, map[string]int{"a": 10, "b": 5}, map[string]int{"a": 11, "b": 5}},
		{"no limit", flow.AdmissionPolicy{}, map[string]int{"a": 1000}, map[string]int{"a": 999}, map[string]int{"a": 1000}},
	} {
		a := flow.NewAdmission(c.policy)
		got := offer(a, admissionStart, seconds, c.offered)
		total := 0
		for name, n := range got {
			total += n
			if n < c.low[name]*seconds-1 || n > c.high[name]*seconds+5 {
				t.Errorf("%s: tenant %s: %d admitted in %d s, want %d to %d per second", c.name, name, n, seconds, c.low[name], c.high[name])
			}
		}
		if limit := c.policy.PerSecond * (seconds + 1); limit > 0 && total > max(limit, seconds+2) {
			t.Errorf("%s: %d admitted in all, over the rate", c.name, total)
		}
		if a.HeldBytes() != 0 {
			t.Errorf("%s: %d bytes are held for ever", c.name, a.HeldBytes())
		}
	}
}

// R3: a tenant that comes in the middle of a flood is admitted at its first submission.
func TestAdmissionOfNewcomer(t *testing.T) {
	t.Parallel()
	a := flow.NewAdmission(flow.AdmissionPolicy{PerSecond: 50})
	offer(a, admissionStart, 5, map[string]int{"a": 5000})
	now := admissionStart.Add(5 * time.Second)
	for i := range 5 {
		if _, as, wait := a.Admit("b", 100, now); as != flow.Admitted {
			t.Errorf("submission %d of the newcomer: %s, wait %s", i, as, wait)
		}
	}
}

// A refusal says when it would not be one, never zero, and that is true.
func TestAdmissionWait(t *testing.T) {
	t.Parallel()
	for _, p := range []flow.AdmissionPolicy{{PerSecond: 3}, {PerTenant: 3}, {PerSecond: 7, PerTenant: 3, Burst: 3 * time.Second}} {
		a := flow.NewAdmission(p)
		now := admissionStart
		refused := 0
		for range 40 {
			_, as, wait := a.Admit("a", 100, now)
			if as == flow.Admitted {
				continue
			}
			refused++
			if wait <= 0 || wait > time.Second {
				t.Errorf("%+v: %s, wait %s", p, as, wait)
			}
			if _, as, _ := a.Admit("a", 100, now.Add(wait/2)); wait > 2 && as == flow.Admitted {
				t.Errorf("%+v: admitted after half of the wait", p)
			}
			now = now.Add(wait)
			if _, as, again := a.Admit("a", 100, now); as != flow.Admitted {
				t.Errorf("%+v: refused again after the wait: %s, %s", p, as, again)
			}
		}
		if refused == 0 {
			t.Errorf("%+v: nothing was refused", p)
		}
		for range 10 { // a clock that goes back and forth gives nothing
			for _, at := range []time.Time{now.Add(-time.Hour), now} {
				if _, as, _ := a.Admit("a", 100, at); as == flow.Admitted {
					t.Errorf("%+v: admitted after the clock went back", p)
				}
			}
		}
	}
}

// R3: bytes are bounded in all, half of them are kept for those who stay within their share, and what is given back
// can be used again.
func TestAdmissionBytes(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	a := flow.NewAdmission(flow.AdmissionPolicy{BytesMax: 16 * mib})
	fill := func(name string) (slots []*flow.Slot) {
		for {
			slot, as, _ := a.Admit(name, mib-flow.AdmissionOverhead, admissionStart)
			if as == flow.RefusedBytes {
				return slots
			}
			slots = append(slots, slot)
		}
	}
	flood := fill("a")
	if len(flood) != 8 {
		t.Errorf("a tenant alone holds %d MiB, want half", len(flood))
	}
	for i := range 30 {
		name := fmt.Sprint("tenant-", i)
		got := len(fill(name))
		if i == 0 && got != 5 { // a third
			t.Errorf("the second tenant holds %d MiB", got)
		}
	}
	if a.HeldBytes() > 16*mib {
		t.Errorf("%d bytes are held", a.HeldBytes())
	}
	if a.Hold("a", mib, admissionStart) != nil {
		t.Error("what waits elsewhere was taken without room")
	}
	held := a.HeldBytes()
	for _, s := range flood {
		a.Release(s)
		a.Release(s)
	}
	a.Release(nil)
	if a.HeldBytes() != held-8*mib {
		t.Errorf("%d bytes are held after 8 MiB of %d were given back", a.HeldBytes(), held)
	}
	if a.Hold("a", 0, admissionStart) == nil {
		t.Error("there is room for what is within the share, and it is not given")
	}
}

// Names that anybody makes up do not fill the memory, and what they hold is given back.
func TestAdmissionOfManyTenants(t *testing.T) {
	t.Parallel()
	a := flow.NewAdmission(flow.AdmissionPolicy{PerTenant: 1000, BytesMax: 1 << 30})
	var slots []*flow.Slot
	for i := range flow.AdmissionTenantsMax + 100 {
		slot, as, _ := a.Admit(fmt.Sprint(i), 0, admissionStart)
		if as != flow.Admitted {
			t.Fatalf("tenant %d: %s", i, as)
		}
		slots = append(slots, slot)
	}
	if n := a.Tenants(); n > flow.AdmissionTenantsMax+1 {
		t.Errorf("%d tenants are kept", n)
	}
	for _, s := range slots {
		a.Release(s)
	}
	a.Admit("x", 0, admissionStart.Add(time.Minute))
	if n := a.Tenants(); n != 1 {
		t.Errorf("%d tenants are kept that have gone", n)
	}
	if got := a.HeldBytes(); got != flow.AdmissionOverhead {
		t.Errorf("%d bytes are held", got)
	}
}

func TestAdmissionPolicyIsChecked(t *testing.T) {
	t.Parallel()
	for _, p := range []flow.AdmissionPolicy{{PerSecond: -1}, {PerTenant: -1}, {Burst: -1}, {BytesMax: -1}, {BytesMax: 1 << 20}} {
		if p.Validate() == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	if err := (flow.AdmissionPolicy{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
}
