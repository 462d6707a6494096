package flow

import (
	"cmp"
	"fmt"
	"time"
)

// AdmissionPolicy bounds the submissions that one coordinator takes (R3). Zero fields mean the defaults.
type AdmissionPolicy struct {
	PerSecond int           // submissions per second of all tenants together; default: no limit
	PerTenant int           // submissions per second of one tenant; default: no limit of its own
	Burst     time.Duration // how much of each rate may come at once, two submissions at least; default 1 s
	BytesMax  int           // of all submissions that are queued or being decided, with AdmissionOverhead; default 64 MiB
}

// Bounds of AdmissionPolicy.
const (
	DefaultAdmissionBurst    = time.Second
	DefaultAdmissionBytesMax = 64 << 20
	AdmissionBytesMin        = 4 << 20 // of BytesMax: half of it is open to a tenant alone, and the largest submission has 1 MiB
	AdmissionOverhead        = 8 << 10 // what a submission costs in memory beside its body, in bytes
	AdmissionTenantsMax      = 10_000  // tenants that are told apart at one time; those beyond them count as one
)

// tenantMemory is for how long a tenant that does nothing counts as active.
const tenantMemory = 10 * time.Second

// WithDefaults returns the policy with its zero fields set.
func (p AdmissionPolicy) WithDefaults() AdmissionPolicy {
	p.Burst = cmp.Or(p.Burst, DefaultAdmissionBurst)
	p.BytesMax = cmp.Or(p.BytesMax, DefaultAdmissionBytesMax)
	return p
}

// Validate names a field that makes no sense, with what to do.
func (p AdmissionPolicy) Validate() error {
	switch {
	case p.PerSecond < 0 || p.PerTenant < 0:
		return fmt.Errorf("flow: %d submissions per second, %d per tenant; give a positive number, or 0 for no limit", p.PerSecond, p.PerTenant)
	case p.Burst < 0:
		return fmt.Errorf("flow: the burst of submissions is %s; give a positive duration, or 0 for the default", p.Burst)
	case p.BytesMax != 0 && p.BytesMax < AdmissionBytesMin:
		return fmt.Errorf("flow: submissions may hold %d bytes; give at least %d, or 0 for the default", p.BytesMax, AdmissionBytesMin)
	}
	return nil
}

// Admission decides which submissions a coordinator takes now. Rates and bytes are shared by one rule: up to its share,
// which is the limit divided by one more than the tenants that are active, a tenant may use all of the limit, and beyond
// it only what leaves half of the limit free. So a tenant alone gets the whole rate, and whoever stays within its share
// is not refused because of what others do. It is not safe for concurrent use.
type Admission struct {
	policy  AdmissionPolicy
	total   bucket
	bytes   int // held by all tenants
	tenants map[string]*tenant
	pruned  time.Time
}

type tenant struct {
	own   bucket // of the tenant's own limit
	share bucket // of what it may always have of the total rate
	bytes int
	seen  time.Time
}

// NewAdmission returns an admission by a valid policy.
func NewAdmission(p AdmissionPolicy) *Admission {
	p = p.WithDefaults()
	return &Admission{policy: p, tenants: map[string]*tenant{}}
}

// Admitting is what a submission is told.
type Admitting string

// What a submission is told.
const (
	Admitted      Admitting = "admitted"
	RefusedTenant Admitting = "tenant_rate" // its tenant is over its own rate
	RefusedRate   Admitting = "rate"        // all tenants together are over the rate, and its own over its share
	RefusedBytes  Admitting = "bytes"       // too many bytes are held
)

// Slot is what an admitted submission holds until Release.
type Slot struct {
	tenant *tenant
	bytes  int
}

// Admit decides about a submission whose body has so many bytes. The slot is nil if it is not admitted. If a rate refuses
// it, wait is when it would not, if nobody else came.
func (a *Admission) Admit(name string, bodyBytes int, now time.Time) (slot *Slot, as Admitting, wait time.Duration) {
	t := a.tenant(name, now)
	if slot = a.hold(t, bodyBytes); slot == nil {
		return nil, RefusedBytes, 0
	}
	if rate := float64(a.policy.PerTenant); rate > 0 {
		t.own.fill(rate, atOnce(rate, a.policy.Burst), now)
		if wait := t.own.until(1, rate); wait > 0 {
			a.Release(slot)
			return nil, RefusedTenant, wait
		}
	}
	if a.policy.PerSecond > 0 {
		if wait := a.draw(t, now); wait > 0 {
			a.Release(slot)
			return nil, RefusedRate, wait
		}
	}
	t.own.tokens--
	return slot, Admitted, 0
}

// draw takes a token of the total rate, or says when there is one for the tenant.
func (a *Admission) draw(t *tenant, now time.Time) (wait time.Duration) {
	rate := float64(a.policy.PerSecond)
	all := atOnce(rate, a.policy.Burst)
	parts := float64(len(a.tenants) + 1)
	a.total.fill(rate, all, now)
	t.share.fill(rate/parts, max(1, all/2/parts), now)
	within := max(t.share.until(1, rate/parts), a.total.until(1, rate))
	beyond := a.total.until(1+all/2, rate)
	if beyond > 0 && within > 0 {
		return min(within, beyond)
	}
	if beyond > 0 {
		t.share.tokens--
	}
	a.total.tokens--
	return 0
}

// Hold takes the bytes of a submission that no rate is for, because it waits elsewhere until it is taken. It returns nil if
// there is no room.
func (a *Admission) Hold(name string, bodyBytes int, now time.Time) *Slot {
	return a.hold(a.tenant(name, now), bodyBytes)
}

func (a *Admission) hold(t *tenant, bodyBytes int) *Slot {
	n := bodyBytes + AdmissionOverhead
	half, share := a.policy.BytesMax/2, a.policy.BytesMax/(len(a.tenants)+1)
	if a.bytes+n > half && (a.bytes+n > a.policy.BytesMax || t.bytes+n > share) {
		return nil
	}
	t.bytes += n
	a.bytes += n
	return &Slot{tenant: t, bytes: n}
}

// Release gives back what a submission held. Releasing a slot again, or none, does nothing.
func (a *Admission) Release(s *Slot) {
	if s == nil {
		return
	}
	s.tenant.bytes -= s.bytes
	a.bytes -= s.bytes
	s.bytes = 0
}

// HeldBytes returns what all submissions hold.
func (a *Admission) HeldBytes() int { return a.bytes }

// Tenants returns how many tenants are told apart now.
func (a *Admission) Tenants() int { return len(a.tenants) }

// tenant returns the state of an active tenant, new or not.
func (a *Admission) tenant(name string, now time.Time) *tenant {
	a.prune(now)
	t := a.tenants[name]
	if t == nil && len(a.tenants) >= AdmissionTenantsMax {
		name = ""
		t = a.tenants[name]
	}
	if t == nil {
		t = &tenant{}
		a.tenants[name] = t
	}
	t.seen = now
	return t
}

// prune forgets tenants that are not active any more, once in a while.
func (a *Admission) prune(now time.Time) {
	if now.Sub(a.pruned) < time.Second {
		return
	}
	a.pruned = now
	for name, t := range a.tenants {
		if t.bytes == 0 && now.Sub(t.seen) > tenantMemory {
			delete(a.tenants, name)
		}
	}
}

// bucket has tokens that come at a rate. Its rate and burst may change. A new one is full, as it has filled since ever.
type bucket struct {
	tokens float64
	at     time.Time
}

// fill adds what has come until now. A clock that goes back adds nothing.
func (b *bucket) fill(rate, burst float64, now time.Time) {
	if now.After(b.at) {
		b.tokens += rate * now.Sub(b.at).Seconds()
		b.at = now
	}
	b.tokens = min(b.tokens, burst)
}

// until returns how long it takes until there are n tokens, in whole microseconds: zero if there are.
func (b *bucket) until(n, rate float64) time.Duration {
	if b.tokens >= n {
		return 0
	}
	return time.Duration((n-b.tokens)/rate*1e6+1) * time.Microsecond
}

// atOnce is how many submissions of a rate may come at once.
func atOnce(rate float64, of time.Duration) float64 { return max(2, rate*of.Seconds()) }
