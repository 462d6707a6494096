package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sagacity-tx/sagacity/examples/gateway"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

var good = gateway.Charge{Card: "good", Cents: 100}

// adapt makes the action as able as the gateway.
func adapt(x participant.External[gateway.Charge, gateway.Receipt], g *gateway.Gateway) participant.External[gateway.Charge, gateway.Receipt] {
	x.Lease, x.Idempotent = lease, g.Idempotent
	if !g.CanInquire {
		x.Inquire = nil
	}
	if !g.CanVoid {
		x.Void = nil
	}
	return x
}

func each(t *testing.T, f func(t *testing.T, lost gateway.When, g *gateway.Gateway)) {
	t.Helper()
	for lost, where := range map[gateway.When]string{gateway.Before: "before", gateway.After: "after"} {
		for _, inquire := range []bool{true, false} {
			for _, idempotent := range []bool{true, false} {
				t.Run(fmt.Sprintf("dies %s the effect, inquiry %t, idempotent %t", where, inquire, idempotent), func(t *testing.T) {
					t.Parallel()
					f(t, lost, &gateway.Gateway{CanInquire: inquire, CanVoid: true, Idempotent: idempotent})
				})
			}
		}
	}
}

// U1, U4, I-3, table B: the gateway dies before or after its effect, and the try comes again. One effect, or unknown where
// neither an inquiry nor the key can tell; never two. What is known can be cancelled afterwards.
func TestTryAfterALostAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, lost gateway.When, g *gateway.Gateway) {
		k := newKit(t, g)
		k.serve(adapt(k.payments().Charge(), g))
		first := k.step(saga.KindSaga, good)
		first.want(first.send(saga.PhaseTry), saga.OutcomeDone, "") // now there is a connection to be used again
		first.wantEffects(1, 0)

		s := k.step(saga.KindSaga, good)
		g.Lose(lost)
		s.want(s.send(saga.PhaseTry), saga.OutcomeRetry, saga.CodeError)
		if g.CanInquire || g.Idempotent {
			s.want(s.end(saga.PhaseTry), saga.OutcomeDone, "")
			s.wantEffects(1, 0)
			s.want(s.end(saga.PhaseCancel), saga.OutcomeDone, "")
			s.wantEffects(1, 1)
			return
		}
		charged := map[gateway.When]int{gateway.Before: 0, gateway.After: 1}[lost]
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseCancel, saga.PhaseTry} { // an operator who replays it learns the same
			s.want(s.end(phase), saga.OutcomeUnknown, "")
			s.wantEffects(charged, 0)
		}
	})
}

// The same, but the transaction is cancelled before the try comes again: what was charged is refunded, what was not
// cannot be charged any more, whatever is still on its way.
func TestCancelAfterALostAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, lost gateway.When, g *gateway.Gateway) {
		k := newKit(t, g)
		k.serve(adapt(k.payments().Charge(), g))
		s := k.step(saga.KindSaga, good)
		g.Lose(lost)
		s.want(s.send(saga.PhaseTry), saga.OutcomeRetry, saga.CodeError)
		r := s.end(saga.PhaseCancel)
		charged := map[gateway.When]int{gateway.Before: 0, gateway.After: 1}[lost]
		if !g.CanInquire {
			s.want(r, saga.OutcomeUnknown, "")
			s.wantEffects(charged, 0)
			return
		}
		s.want(r, saga.OutcomeDone, "")
		s.wantEffects(charged, charged)
		if lost == gateway.Before {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.server.URL+"/charges", strings.NewReader(`{"card":"good","cents":100}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", s.key(saga.PhaseTry).String()) // the request that was on its way
			res, err := k.server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			s.wantEffects(0, 0)
		}
		s.want(s.send(saga.PhaseTry), saga.OutcomeHanging, "")
		s.want(s.send(saga.PhaseCancel), saga.OutcomeDone, "")
	})
}

// S2.6: the fence of a pivot whose answer was lost. It finds out; it never decides on a guess.
func TestFenceAfterALostAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, lost gateway.When, g *gateway.Gateway) {
		if !g.CanInquire {
			return // no pivot can be made of such a gateway
		}
		k := newKit(t, g)
		x := adapt(k.payments().Charge(), g)
		k.serve(participant.ExternalPivot[gateway.Charge, gateway.Receipt]{
			Do: x.Do, Inquire: x.Inquire, Void: x.Void, Idempotent: x.Idempotent, Lease: x.Lease,
		})
		s := k.step(saga.KindPivot, good)
		g.Lose(lost)
		s.want(s.send(saga.PhaseTry), saga.OutcomeRetry, saga.CodeError)
		fence := s.end(saga.PhaseCancel)
		switch {
		case lost == gateway.Before:
			s.want(fence, saga.OutcomeDone, "")
			s.want(s.end(saga.PhaseTry), saga.OutcomeHanging, "")
			s.wantEffects(0, 0)
		default:
			s.want(fence, saga.OutcomeFault, saga.FaultContradicts)
			try := s.end(saga.PhaseTry)
			s.want(try, saga.OutcomeDone, "")
			if string(try.Result.Data) != string(fence.Result.Data) || len(try.Result.Data) == 0 {
				t.Errorf("the fence got %s, the try %s", fence.Result.Data, try.Result.Data)
			}
			s.wantEffects(1, 0)
		}
	})
}

// Without a way to void, a charge that was not found cannot be cancelled: it may still be on its way.
func TestCancelWithoutVoid(t *testing.T) {
	t.Parallel()
	g := &gateway.Gateway{CanInquire: true}
	k := newKit(t, g)
	k.serve(adapt(k.payments().Charge(), g))
	s := k.step(saga.KindSaga, good)
	g.Lose(gateway.Before)
	s.want(s.send(saga.PhaseTry), saga.OutcomeRetry, saga.CodeError)
	s.want(s.end(saga.PhaseCancel), saga.OutcomeUnknown, "")
	s.wantEffects(0, 0)
}

// A refusal of the gateway is final, and an error before anything has left needs neither patience nor an inquiry.
func TestProofs(t *testing.T) {
	t.Parallel()
	g := &gateway.Gateway{}
	k := newKit(t, g)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	var back atomic.Bool
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !back.Load() {
			addr = nobody.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	payments := gateway.Payments{URL: k.server.URL, HTTP: &http.Client{Transport: transport}}
	k.serve(adapt(payments.Charge(), g))
	s := k.step(saga.KindSaga, good)
	r := s.send(saga.PhaseTry)
	s.want(r, saga.OutcomeRetry, saga.CodeError)
	if r.RetryAfter != 0 {
		t.Errorf("retry after %s", r.RetryAfter)
	}
	s.wantEffects(0, 0)

	back.Store(true)
	s.want(s.send(saga.PhaseTry), saga.OutcomeDone, "")
	s.wantEffects(1, 0)
	stolen := k.step(saga.KindSaga, gateway.Charge{Card: gateway.Stolen, Cents: 100})
	stolen.want(stolen.send(saga.PhaseTry), saga.OutcomeRefused, "declined")
	stolen.want(stolen.send(saga.PhaseCancel), saga.OutcomeDone, "")
	stolen.wantEffects(0, 0)
}

// An inquiry that gets no answer is asked again; it proves nothing.
func TestInquiryWithoutAnswer(t *testing.T) {
	t.Parallel()
	g := &gateway.Gateway{CanInquire: true, CanVoid: true}
	k := newKit(t, g)
	down := make(chan bool, 1)
	down <- true
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is := <-down
		down <- is
		if is && r.Method == http.MethodGet {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		g.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	payments := k.payments()
	payments.URL = proxy.URL
	k.serve(adapt(payments.Charge(), g))
	s := k.step(saga.KindSaga, good)
	g.Lose(gateway.After)
	for range 2 { // the second one has waited for the end of the lease
		r := s.send(saga.PhaseTry)
		for r.Outcome == saga.OutcomeInProgress { // the database's clock has not come so far yet
			wait(r.RetryAfter)
			r = s.send(saga.PhaseTry)
		}
		s.want(r, saga.OutcomeRetry, saga.CodeError)
		wait(r.RetryAfter)
	}
	<-down
	down <- false
	s.want(s.end(saga.PhaseTry), saga.OutcomeDone, "")
	s.wantEffects(1, 0)
}
