package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// outageLoad submits transactions at a rate, whatever becomes of those before: an open loop.
type outageLoad struct {
	client    *client.Client
	def       *saga.Definition
	perSecond int
	places    chan struct{} // one for each request in flight: the test itself has bounds

	requests          sync.WaitGroup
	submitted, missed atomic.Int64
}

const outageRequestsMax = 2000

func newOutageLoad(t *testing.T, url string, def *saga.Definition, perSecond int) *outageLoad {
	t.Helper()
	c, err := client.New(url, client.Options{
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, MaxConnsPerHost: 128}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &outageLoad{client: c, def: def, perSecond: perSecond, places: make(chan struct{}, outageRequestsMax)}
}

// run submits until ctx ends, and returns when all has been answered.
func (l *outageLoad) run(ctx context.Context, t *testing.T) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	for n := 0; ctx.Err() == nil; {
		for due := int(time.Since(began).Seconds() * float64(l.perSecond)); n < due; n++ {
			l.submit(t, fmt.Sprint("outage-", n))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	l.requests.Wait()
}

func (l *outageLoad) submit(t *testing.T, requestID string) {
	select {
	case l.places <- struct{}{}:
	default:
		l.missed.Add(1)
		return
	}
	l.requests.Go(func() {
		defer func() { <-l.places }()
		_, err := l.client.Submit(t.Context(), client.Submission{Definition: l.def, Input: struct{}{}}, client.SubmitOptions{RequestID: requestID})
		if err != nil {
			l.missed.Add(1)
			return
		}
		l.submitted.Add(1)
	})
}

// measureCapacity returns how many transactions a second are carried when so many clients submit one after the other.
func (l *outageLoad) measureCapacity(t *testing.T, clients int, warmUp, during time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), warmUp+during)
	defer cancel()
	var ended atomic.Int64
	var work sync.WaitGroup
	for n := range clients {
		work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				s, err := l.client.Submit(ctx, client.Submission{Definition: l.def, Input: struct{}{}},
					client.SubmitOptions{RequestID: fmt.Sprint("capacity-", n, "-", i), Wait: time.Minute})
				if err == nil && s.Transaction != nil && s.Transaction.Status == saga.StatusCommitted {
					ended.Add(1)
				}
			}
		})
	}
	pause(ctx, warmUp)
	before := ended.Load()
	work.Wait()
	return int(float64(ended.Load()-before) / during.Seconds())
}
