// Package gateway takes payments in transactions, with a payment gateway that takes no part in them: its effect is
// outside of every database here. Gateway is that gateway; Payments is the participant's side.
package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/sagacity-tx/sagacity/participant"
)

// Charge is the input of a payment.
type Charge struct {
	Card  string `json:"card"`
	Cents int64  `json:"cents"`
}

// Payments calls the gateway.
type Payments struct {
	URL  string
	HTTP *http.Client
}

// Charge is the action of a saga step: the card is charged, and a cancel refunds it.
func (g Payments) Charge() participant.External[Charge, Receipt] {
	return participant.External[Charge, Receipt]{
		Do:      g.charge,
		Undo:    g.refund,
		Inquire: g.find,
		Void:    g.void,
		// Idempotent: true, if the gateway repeats its answer to a key for as long as a transaction may take
	}
}

// Pay is the same as a pivot: the charge decides the transaction.
func (g Payments) Pay() participant.ExternalPivot[Charge, Receipt] {
	return participant.ExternalPivot[Charge, Receipt]{Do: g.charge, Inquire: g.find, Void: g.void}
}

// charge tells apart what has certainly not happened, and says nothing about the rest.
func (g Payments) charge(ctx context.Context, c participant.Call[Charge]) (Receipt, error) {
	body, err := json.Marshal(c.Input)
	if err != nil {
		return Receipt{}, participant.NotSent(err)
	}
	var receipt Receipt
	status, err := g.call(ctx, http.MethodPost, "/charges", c.Key(), body, &receipt)
	switch {
	case err != nil:
		return Receipt{}, err // nobody knows: a time-out, a reset, an EOF
	case status == http.StatusPaymentRequired:
		return Receipt{}, participant.Refuse("declined", nil)
	case status == http.StatusConflict:
		return Receipt{}, participant.Refuse("voided", nil)
	case status != http.StatusCreated:
		return Receipt{}, fmt.Errorf("the gateway answered %d", status) // nobody knows
	}
	return receipt, nil
}

// find asks with the key that charge has passed on, whatever phase has to know.
func (g Payments) find(ctx context.Context, e participant.Effect[Charge]) (participant.Found[Receipt], error) {
	var receipt Receipt
	status, err := g.call(ctx, http.MethodGet, "/charges?key="+url.QueryEscape(e.Key()), "", nil, &receipt)
	switch {
	case err != nil:
		return participant.Found[Receipt]{}, err // asked again later
	case status == http.StatusOK:
		return participant.FoundDone(receipt), nil
	case status == http.StatusNotFound:
		return participant.FoundAbsent[Receipt](), nil
	case status == http.StatusNotImplemented:
		return participant.FoundUndecided[Receipt](), nil
	}
	return participant.Found[Receipt]{}, fmt.Errorf("the gateway answered %d", status)
}

// void makes the gateway refuse the key, so that a charge that is still on its way is none.
func (g Payments) void(ctx context.Context, e participant.Effect[Charge]) error {
	return g.must(ctx, "/voids?key="+url.QueryEscape(e.Key()))
}

// refund is safe to repeat: this gateway refunds a charge once. Another one would get c.Key() as the refund's own key.
func (g Payments) refund(ctx context.Context, c participant.Settle[Charge, Receipt]) error {
	return g.must(ctx, "/refunds?key="+url.QueryEscape(c.TryKey()))
}

func (g Payments) must(ctx context.Context, path string) error {
	status, err := g.call(ctx, http.MethodPost, path, "", nil, nil)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("the gateway answered %d", status)
	}
	return err
}

// call makes one request. Its error is NotSent if nothing can have left.
func (g Payments) call(ctx context.Context, method, path, key string, body []byte, answer any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, g.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, participant.NotSent(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.GetBody = nil // with it Go's client takes this header for a promise, and sends again when a connection breaks
	}
	res, err := g.HTTP.Do(req)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" { // the connection was never made
		return 0, participant.NotSent(err)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 == 2 && answer != nil {
		err = json.NewDecoder(res.Body).Decode(answer)
	}
	return res.StatusCode, err
}
