package fault

import "net/http"

// statuses are the statuses of HTTP that are not as the others of their hundred.
var statuses = map[int]Cause{
	http.StatusUnauthorized:                  Setup,
	http.StatusProxyAuthRequired:             Setup,
	http.StatusUpgradeRequired:               Setup,
	http.StatusNetworkAuthenticationRequired: Setup, // 511

	http.StatusRequestEntityTooLarge:       TooLarge,
	http.StatusRequestURITooLong:           TooLarge,
	http.StatusRequestHeaderFieldsTooLarge: TooLarge,

	http.StatusRequestTimeout:     Unavailable, // 408: it would not wait for the rest of the request
	http.StatusMisdirectedRequest: Unavailable, // 421: another connection may lead to one that knows it
	http.StatusLocked:             Busy,
	http.StatusTooEarly:           Busy,
	http.StatusTooManyRequests:    Exhausted,

	http.StatusNotImplemented:          Rejected,
	http.StatusHTTPVersionNotSupported: Setup,
	http.StatusVariantAlsoNegotiates:   Setup,
	http.StatusNotExtended:             Rejected,
	http.StatusLoopDetected:            Setup,
	http.StatusServiceUnavailable:      Unavailable,
	http.StatusInsufficientStorage:     Exhausted,
	http.StatusBadGateway:              Lost,   // a proxy does not say how far the request went
	http.StatusGatewayTimeout:          Silent, // neither here
}

// HTTP returns the cause of an answer with that status (RFC 9110, section 15); "" for success. A status that is not
// known counts as the first of its hundred, as section 15 demands; 500 itself leaves open what was done. A
// redirect is not followed, so it is a refusal.
func HTTP(status int) Cause {
	if cause, ok := statuses[status]; ok {
		return cause
	}
	switch status / 100 {
	case 2:
		return ""
	case 3, 4:
		return Rejected
	}
	return Unrecognised
}
