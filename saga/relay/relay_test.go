package relay_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga/relay"
)

var results = []relay.Result{relay.Acknowledged, relay.Expired, relay.Blocked, relay.Permanent, relay.Transient}

// A row is deleted only if its message was acknowledged or is not worth publishing any more (C1, C2), and one that
// this process has a claim on never stays claimed.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		res             relay.Result
		free, claimed   relay.Settlement
		failing, teller bool
	}{
		{relay.Acknowledged, relay.Delete, relay.Delete, false, true},
		{relay.Expired, relay.Delete, relay.Delete, false, false},
		{relay.Blocked, relay.Leave, relay.Release, false, false},
		{relay.Permanent, relay.Release, relay.Release, false, false},
		{relay.Transient, relay.Leave, relay.Release, true, true},
	} {
		if got := relay.Settle(c.res, false); got != c.free {
			t.Errorf("result %d of an unclaimed row: %d, want %d", c.res, got, c.free)
		}
		if got := relay.Settle(c.res, true); got != c.claimed {
			t.Errorf("result %d of a claimed row: %d, want %d", c.res, got, c.claimed)
		}
		if failing, told := relay.Failing(c.res); failing != c.failing || told != c.teller {
			t.Errorf("result %d: failing %t, told %t", c.res, failing, told)
		}
	}
}

func TestIsExpired(t *testing.T) {
	now := time.Unix(1000, 0)
	for expiry, want := range map[time.Time]bool{{}: false, now: false, now.Add(1): false, now.Add(-1): true} {
		if got := relay.IsExpired(expiry, now); got != want {
			t.Errorf("expiry %s: %t", expiry, got)
		}
	}
}

func TestRetryDelayGrowsWithAge(t *testing.T) {
	for _, c := range []struct {
		res  relay.Result
		age  time.Duration
		want time.Duration // without jitter
	}{
		{relay.Transient, 0, relay.TransientDelayMin},
		{relay.Transient, 4 * time.Second, 2 * time.Second},
		{relay.Transient, time.Hour, relay.TransientDelayMax},
		{relay.Blocked, 0, relay.BlockedDelayMin},
		{relay.Blocked, time.Minute, 30 * time.Second},
		{relay.Blocked, time.Hour, relay.BlockedDelayMax},
		{relay.Permanent, 0, relay.PermanentDelay},
	} {
		if got := relay.RetryDelay(c.res, c.age, 0.5); got != c.want {
			t.Errorf("RetryDelay(%d, %s) = %s, want %s", c.res, c.age, got, c.want)
		}
		lo, hi := relay.RetryDelay(c.res, c.age, 0), relay.RetryDelay(c.res, c.age, 0.999999)
		if lo >= c.want || hi <= c.want || lo < c.want*8/10-1 || hi > c.want*12/10+1 {
			t.Errorf("jitter from %s to %s around %s", lo, hi, c.want)
		}
	}
}

// Every row that is not done is claimable again after its delay, whoever held it (C2).
func TestEveryRowComesAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		res := rapid.SampledFrom(results).Draw(t, "result")
		grace := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "grace"))
		age := time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "age"))
		row := relay.Row{CreatedAt: now.Add(-age)}
		if rapid.Bool().Draw(t, "claimed") {
			row.ClaimedUntil = now.Add(30 * time.Second)
		}
		latest := max(now.Sub(row.CreatedAt), grace) - now.Sub(row.CreatedAt)
		switch relay.Settle(res, !row.ClaimedUntil.IsZero()) {
		case relay.Delete:
			return
		case relay.Release:
			delay := relay.RetryDelay(res, age, rapid.Float64Range(0, 0.999).Draw(t, "rnd"))
			if delay <= 0 || delay > 2*relay.PermanentDelay {
				t.Fatalf("a delay of %s", delay)
			}
			row.ClaimedUntil = now.Add(delay)
			latest = max(latest, delay)
		case relay.Leave:
		}
		if !row.ClaimedUntil.IsZero() && relay.Claimable(row, row.ClaimedUntil, grace) {
			t.Fatal("claimable while claimed")
		}
		if !relay.Claimable(row, now.Add(latest+1), grace) {
			t.Fatalf("%+v is not claimable %s later", row, latest+1)
		}
	})
}

func TestClaimable(t *testing.T) {
	now, grace := time.Unix(1000, 0), 2*time.Second
	for name, c := range map[string]struct {
		row  relay.Row
		want bool
	}{
		"young":              {relay.Row{CreatedAt: now}, false},
		"as old as grace":    {relay.Row{CreatedAt: now.Add(-grace)}, false},
		"old":                {relay.Row{CreatedAt: now.Add(-grace - 1)}, true},
		"claimed":            {relay.Row{CreatedAt: now.Add(-time.Hour), ClaimedUntil: now.Add(1)}, false},
		"claimed until now":  {relay.Row{CreatedAt: now.Add(-time.Hour), ClaimedUntil: now}, false},
		"a claim that ended": {relay.Row{CreatedAt: now.Add(-time.Hour), ClaimedUntil: now.Add(-1)}, true},
	} {
		if got := relay.Claimable(c.row, now, grace); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestFits(t *testing.T) {
	limit := relay.Usage{Count: 2, Bytes: 100}
	for _, c := range []struct {
		use  relay.Usage
		size int
		want bool
	}{
		{relay.Usage{}, 100, true},
		{relay.Usage{}, 101, false},
		{relay.Usage{Count: 1, Bytes: 60}, 40, true},
		{relay.Usage{Count: 1, Bytes: 60}, 41, false},
		{relay.Usage{Count: 2}, 1, false},
	} {
		if got := c.use.Fits(c.size, limit); got != c.want {
			t.Errorf("%d bytes beside %+v: %t", c.size, c.use, got)
		}
	}
}

func TestPollRoom(t *testing.T) {
	limit := relay.Usage{Count: 1000, Bytes: 10 << 20}
	for name, c := range map[string]struct {
		failing bool
		use     relay.Usage
		want    relay.Usage
	}{
		"free":         {false, relay.Usage{}, relay.Usage{Count: 100, Bytes: 5 << 20}},
		"failing":      {true, relay.Usage{}, relay.Usage{Count: 8, Bytes: 5 << 20}},
		"nearly full":  {false, relay.Usage{Count: 495}, relay.Usage{Count: 5, Bytes: 5 << 20}},
		"half in use":  {false, relay.Usage{Count: 500}, relay.Usage{}},
		"half in size": {false, relay.Usage{Count: 1, Bytes: 5 << 20}, relay.Usage{}},
	} {
		if got := relay.PollRoom(100, c.failing, c.use, limit); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestClaimedAdd(t *testing.T) {
	var took relay.Claimed
	for i, id := range []relay.RowID{{3}, {5}, {4}} {
		took.Add(id, i+1)
	}
	if want := (relay.Claimed{Usage: relay.Usage{Count: 3, Bytes: 6}, Last: relay.RowID{5}}); took != want {
		t.Errorf("%+v, want %+v", took, want)
	}
}

func TestSweep(t *testing.T) {
	now, interval, id := time.Unix(1000, 0), time.Second, relay.RowID{1}
	room := relay.Usage{Count: 10, Bytes: 10 << 20}
	took := func(count, size int) relay.Claimed {
		return relay.Claimed{Usage: relay.Usage{Count: count, Bytes: size}, Last: id}
	}
	first, wait := relay.Sweep{}.Next(took(10, 0), room, now, interval, 0.5)
	if first.After != id || wait != 0 {
		t.Errorf("a full poll: %+v, %s", first, wait)
	}
	for name, c := range map[string]struct {
		took relay.Claimed
		at   time.Time
		goOn bool
		wait time.Duration
	}{
		"the last of a pass":      {took(9, 0), now, false, interval},
		"nothing":                 {relay.Claimed{}, now, false, interval},
		"full in bytes":           {took(3, 9<<20+1), now, true, 0},
		"a pass of the time":      {took(10, 0), now.Add(relay.SweepMax), true, 0},
		"a pass that is too long": {took(10, 0), now.Add(relay.SweepMax + 1), false, 0},
	} {
		s, wait := first.Next(c.took, room, c.at, interval, 0.5)
		if s.After == id != c.goOn || !c.goOn && s != (relay.Sweep{}) || wait != c.wait {
			t.Errorf("%s: %+v, %s", name, s, wait)
		}
	}
}
