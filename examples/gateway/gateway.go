package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// Gateway is somebody else's service: it charges cards over HTTP, in memory. What it can do beyond that differs from
// gateway to gateway. It counts what it does, and it can lose its answers. The zero value is ready.
//
//	POST /charges         Idempotency-Key, {"card":…,"cents":…}   201 charge, 402 declined, 409 voided
//	GET  /charges?key=…                                           200 charge, 404 never seen or voided
//	POST /refunds?key=…   the same refund twice is one            204, 404
//	POST /voids?key=…     no charge under this key any more       204, 409 charged already
type Gateway struct {
	Idempotent bool // a key charges once, and its answer is repeated
	CanInquire bool
	CanVoid    bool

	mu       sync.Mutex
	charges  map[string][]Receipt
	refunded map[string]int
	voided   map[string]bool
	lose     When
}

// Receipt is a charge that was made.
type Receipt struct {
	ID    string `json:"id"`
	Cents int64  `json:"cents"`
}

// When says where the gateway loses an answer.
type When int

// The places.
const (
	Never  When = iota
	Before      // it dies before the effect
	After       // it dies after the effect
)

// Stolen is a card that is declined.
const Stolen = "stolen"

// Lose makes the gateway lose the answer to the next charge: the connection breaks.
func (g *Gateway) Lose(when When) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lose = when
}

// Effects returns how often a key was charged, and how often it was refunded.
func (g *Gateway) Effects(key string) (charged, refunded int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.charges[key]), g.refunded[key]
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.charges == nil {
		g.charges, g.refunded, g.voided = map[string][]Receipt{}, map[string]int{}, map[string]bool{}
	}
	key := r.FormValue("key")
	switch r.Method + " " + r.URL.Path {
	case "POST /charges":
		g.charge(w, r, r.Header.Get("Idempotency-Key"))
	case "GET /charges":
		g.find(w, key)
	case "POST /refunds":
		g.refund(w, key)
	case "POST /voids":
		g.void(w, key)
	default:
		http.NotFound(w, r)
	}
}

func (g *Gateway) charge(w http.ResponseWriter, r *http.Request, key string) {
	lose := g.lose
	g.lose = Never
	if lose == Before {
		panic(http.ErrAbortHandler)
	}
	var order struct {
		Card  string `json:"card"`
		Cents int64  `json:"cents"`
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	before := g.charges[key]
	switch {
	case g.voided[key]:
		w.WriteHeader(http.StatusConflict)
		return
	case order.Card == Stolen:
		w.WriteHeader(http.StatusPaymentRequired)
		return
	case g.Idempotent && len(before) > 0:
		answer(w, http.StatusCreated, before[0])
		return
	}
	receipt := Receipt{ID: fmt.Sprintf("ch-%d-%s", len(before)+1, key), Cents: order.Cents}
	g.charges[key] = append(before, receipt)
	if lose == After {
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusCreated, receipt)
}

func (g *Gateway) find(w http.ResponseWriter, key string) {
	switch {
	case !g.CanInquire:
		w.WriteHeader(http.StatusNotImplemented)
	case len(g.charges[key]) > 0:
		answer(w, http.StatusOK, g.charges[key][0])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (g *Gateway) refund(w http.ResponseWriter, key string) {
	if len(g.charges[key]) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	g.refunded[key] = 1 // the whole charge; again is the same
	w.WriteHeader(http.StatusNoContent)
}

func (g *Gateway) void(w http.ResponseWriter, key string) {
	switch {
	case !g.CanVoid:
		w.WriteHeader(http.StatusNotImplemented)
	case len(g.charges[key]) > 0:
		w.WriteHeader(http.StatusConflict)
	default:
		g.voided[key] = true
		w.WriteHeader(http.StatusNoContent)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller who is gone will ask again
}
