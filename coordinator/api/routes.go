package api

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// route is one route: how it is served, and what the document says about it.
type route struct {
	method, path string
	access       access
	byTenant     bool // with accessViewer and above: the handler keeps to the caller's tenant
	handle       func(*Handler, *call) error

	name     string // of the operation in the document
	summary  string
	params   []*huma.Param // query and header; those of the path are added
	request  reflect.Type  // of the body; nil for none
	required bool          // the body is
	answers  []answerDoc
	media    string   // of answers that are not JSON; default: text/plain
	codes    []string // of problems, beside those that every route has
}

type answerDoc struct {
	status  int
	text    string
	form    reflect.Type // nil: not JSON
	headers []*huma.Param
}

func (rt *route) hasQuery(name string) bool {
	for _, p := range rt.params {
		if p.In == "query" && p.Name == name {
			return true
		}
	}
	return false
}

func (rt *route) queryNames() string {
	var names []string
	for _, p := range rt.params {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

func param(in, name, text string, schema *huma.Schema) *huma.Param {
	return &huma.Param{In: in, Name: name, Description: text, Schema: schema}
}

func stringSchema(allowed ...string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, a := range allowed {
		s.Enum = append(s.Enum, a)
	}
	return s
}

func limitSchema() *huma.Schema {
	low, high := 1.0, float64(limitMax)
	return &huma.Schema{Type: huma.TypeInteger, Minimum: &low, Maximum: &high, Default: limitDefault}
}

func pageParams() []*huma.Param {
	return []*huma.Param{
		param("query", "limit", "entries of a page", limitSchema()),
		param("query", "cursor", "next_cursor of the page before", stringSchema()),
	}
}

func etagHeader(what string) *huma.Param {
	return param("header", "ETag", "the version of the "+what+", for If-Match", stringSchema())
}

// routes returns every route of the API.
func routes() []route {
	list := slices.Concat(transactionRoutes(), definitionRoutes(), deadLetterRoutes(), approvalRoutes(), editRoutes(), groupRoutes(), auditRoutes(), jobRoutes(), pauseRoutes(), webhookRoutes(), tokenRoutes())
	return append(list,
		route{
			method: http.MethodGet, path: "/healthz", handle: (*Handler).healthz, name: "getHealth",
			summary: "Whether the process answers; asks nobody else",
			answers: []answerDoc{{200, "it does", reflect.TypeFor[Health](), nil}},
		},
		route{
			method: http.MethodGet, path: "/readyz", handle: (*Handler).readyz, name: "getReadiness",
			summary: "Whether requests can be served: database and NATS can be reached",
			answers: []answerDoc{{200, "they can", reflect.TypeFor[Health](), nil}}, codes: []string{codeNotReady},
		},
		route{
			method: http.MethodGet, path: "/openapi.json", handle: (*Handler).document, name: "getDocument",
			summary: "This document", answers: []answerDoc{{200, "OpenAPI 3.1", reflect.TypeFor[map[string]any](), nil}},
		},
		route{
			method: http.MethodGet, path: problemPath + "{code}", handle: (*Handler).explain, name: "getProblem",
			summary: "What the code of a problem means, and what to do", answers: []answerDoc{{200, "text", nil, nil}},
			codes: []string{codeNotFound},
		},
	)
}

func transactionRoutes() []route {
	transaction := reflect.TypeFor[Transaction]()
	replayed := param("header", headerReplayed, "true: this key was submitted before", stringSchema("true"))
	location := param("header", "Location", "the transaction", stringSchema())
	return []route{
		{
			method: http.MethodPost, path: "/v1/transactions", access: accessSubmit, handle: (*Handler).submit, name: "submitTransaction",
			summary: "Start a transaction",
			params: []*huma.Param{
				param("header", headerKey, "makes repetitions safe: the same key and bytes give the same answer and one transaction", &huma.Schema{Type: huma.TypeString, Pattern: "^[!-~]{1,255}$"}),
				param("header", "Prefer", "wait=5: wait up to so many seconds, 60 at most, and answer with the transaction as it is then; return=minimal beside it: without its steps", stringSchema()),
				param("header", "traceparent", "W3C Trace Context, passed on to participants", stringSchema()),
				param("header", "tracestate", "W3C Trace Context, passed on to participants", stringSchema()),
			},
			request: reflect.TypeFor[SubmissionForm](), required: true,
			answers: []answerDoc{
				{202, "accepted: the stored answer of the key, the same bytes for every repetition; with Prefer: wait the transaction, which has not ended", reflect.TypeFor[Accepted](), []*huma.Param{location, replayed}},
				{200, "with Prefer: wait: the transaction, which has ended", transaction, []*huma.Param{location, replayed}},
			},
			codes: append(submissionCodes(), coordinator.CodeUnknownDefinition, coordinator.CodeDefinitionDraining, codeKeyReused, codeIDTaken, codeRateLimited, codeOverloaded, codeOutcomeUnknown),
		},
		{
			method: http.MethodGet, path: "/v1/transactions", access: accessClient, handle: (*Handler).listTransactions, name: "listTransactions",
			summary: "List the caller's transactions, the newest first, without their steps",
			params: append([]*huma.Param{
				param("query", "status", "only those", stringSchema(statuses...)),
				param("query", "definition", "only those of the definition of that name", stringSchema()),
				param("query", "suspended", "only those that wait for a person, or that do not", stringSchema("true", "false")),
			}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[Transactions](), nil}}, codes: []string{codeInvalidQuery, codeInvalidCursor},
		},
		{
			method: http.MethodGet, path: "/v1/transactions/{id}", access: accessClient, handle: (*Handler).getTransaction, name: "getTransaction",
			summary: "Read a transaction",
			params:  []*huma.Param{param("query", "wait", "wait up to so long for its end, such as 5s; 60s at most", stringSchema())},
			answers: []answerDoc{{200, "the transaction as it is", transaction, []*huma.Param{etagHeader("transaction")}}}, codes: []string{"invalid_id", codeInvalidQuery, codeNotFound, codeOverloaded},
		},
		{
			method: http.MethodGet, path: "/v1/transactions/{id}/attempts", access: accessClient, handle: (*Handler).getAttempts, name: "listAttempts",
			summary: "List the attempts that ended without settling their operation",
			answers: []answerDoc{{200, "the oldest first, at most 1,000", reflect.TypeFor[Attempts](), nil}}, codes: []string{"invalid_id", codeNotFound},
		},
		{
			method: http.MethodGet, path: "/v1/transactions/{id}/explain", access: accessClient, handle: (*Handler).explainTransaction, name: "explainTransaction",
			summary: "Say in sentences why a transaction waits, what happens next and what can be done",
			answers: []answerDoc{{200, "sentences for people, and the same for programs", reflect.TypeFor[Explanation](), nil}}, codes: []string{"invalid_id", codeNotFound},
		},
		{
			method: http.MethodGet, path: "/v1/transactions/{id}/events", access: accessClient, handle: (*Handler).watchTransaction, name: "watchTransaction",
			summary: "Follow a transaction: server-sent events, each the transaction as it is, until it has ended", media: mediaEvents,
			params: []*huma.Param{param("header", headerLastEvent, "the id of the last event that was seen: only later versions are sent", stringSchema())},
			answers: []answerDoc{
				{200, "events changed, and at last ended, whose data is the transaction and whose id is its version; versions may be left out", nil, nil},
				{204, "it has ended, and the last event was seen", nil, nil},
			},
			codes: []string{"invalid_id", "invalid_value", codeDuplicateHeader, codeNotFound, codeOverloaded},
		},
		{
			method: http.MethodGet, path: "/v1/requests", access: accessClient, handle: (*Handler).findRequest, name: "findRequest",
			summary: "Read the transaction that was submitted with an Idempotency-Key",
			params:  []*huma.Param{{In: "query", Name: "id", Required: true, Description: "the Idempotency-Key", Schema: stringSchema()}},
			answers: []answerDoc{{200, "the transaction as it is", transaction, []*huma.Param{etagHeader("transaction")}}}, codes: []string{"invalid_request_id", codeNotFound},
		},
		{
			method: http.MethodPost, path: "/v1/transactions/{id}/cancel", access: accessCancel, handle: (*Handler).cancelTransaction, name: "cancelTransaction",
			summary: "Ask to cancel a transaction; repetitions change nothing",
			request: reflect.TypeFor[ReasonForm](),
			answers: []answerDoc{
				{200, "it is or will be cancelled", transaction, []*huma.Param{etagHeader("transaction")}},
				{202, "the pivot's outcome is being found out, which decides", transaction, []*huma.Param{etagHeader("transaction")}},
			},
			codes: []string{"invalid_id", "invalid_json", codeInvalidReason, saga.CodeTooLarge, codeMediaType, codeNotFound, saga.CodeNotCancellable, codeOverloaded, codeOutcomeUnknown},
		},
	}
}

func definitionRoutes() []route {
	definition := reflect.TypeFor[Definition]()
	location := []*huma.Param{param("header", "Location", "the definition", stringSchema())}
	return []route{
		{
			method: http.MethodPost, path: "/v1/definitions", access: accessOperator, handle: (*Handler).registerDefinition, name: "registerDefinition",
			summary: "Register a definition, so that submissions may name it; repetitions change nothing",
			request: reflect.TypeFor[DefinitionForm](), required: true,
			answers: []answerDoc{{201, "it is registered", definition, location}, {200, "it was registered before", definition, location}},
			codes:   append(definitionCodes(), saga.CodeTooLarge, codeMediaType, codeDuplicateHeader, codeDefinitionTaken, codeOverloaded, codeOutcomeUnknown),
		},
		{
			method: http.MethodGet, path: "/v1/definitions", access: accessClient, handle: (*Handler).listDefinitions, name: "listDefinitions",
			summary: "List the registered definitions without their content",
			params:  []*huma.Param{param("query", "name", "only the versions of that name", stringSchema())},
			answers: []answerDoc{{200, "by name, the newest version first, at most 1,000", reflect.TypeFor[Definitions](), nil}}, codes: []string{codeInvalidQuery},
		},
		{
			method: http.MethodGet, path: "/v1/definitions/{name}/{version}", access: accessClient, handle: (*Handler).getDefinition, name: "getDefinition",
			summary: "Read a registered definition", answers: []answerDoc{{200, "the definition", definition, nil}},
			codes: []string{"invalid_name", "invalid_version", codeNotFound},
		},
		{
			method: http.MethodPost, path: "/v1/definitions/{name}/{version}/drain", access: accessOperator, handle: (*Handler).drainDefinition, name: "drainDefinition",
			summary: "Refuse new transactions of a registered definition; those that run keep it",
			request: reflect.TypeFor[ReasonForm](), required: true, answers: []answerDoc{{200, "it is draining", definition, nil}},
			codes: []string{
				"invalid_name", "invalid_version", "invalid_json", codeMissingReason, codeInvalidReason, saga.CodeTooLarge, codeMediaType,
				codeDuplicateHeader, codeNotFound, codeOverloaded, codeOutcomeUnknown,
			},
		},
	}
}

// submissionCodes are those of an invalid submission.
func submissionCodes() []string {
	return append(definitionCodes(),
		saga.CodeTooLarge, codeMediaType, codeDuplicateHeader, "invalid_request_id", "missing_definition", "invalid_id",
		"invalid_deadline", "invalid_start", "invalid_content_type", "invalid_base64")
}

// definitionCodes are those of an invalid definition.
func definitionCodes() []string {
	return []string{
		codeIncomplete, codeSlow, "invalid_json", "invalid_utf8", "duplicate_member", "invalid_duration", "invalid_name",
		"invalid_version", "invalid_value", "invalid_steps", "invalid_attempts", "unknown_step", "duplicate_step", "duplicate_after",
		"too_many_after", "cycle", "two_pivots", "pivot_after_retriable", "compensable_after_decision",
	}
}

func deadLetterRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/dead-letters", access: accessViewer, byTenant: true, handle: (*Handler).listDeadLetters, name: "listDeadLetters",
			summary: "List dead letters, the newest first",
			params: append([]*huma.Param{
				param("query", "status", "only those", stringSchema(deadLetterStatuses...)),
				param("query", "participant", "only those of the participant", stringSchema()),
				param("query", "cause", "only those", stringSchema()),
				param("query", "transaction", "only those of the transaction", stringSchema()),
				param("query", "fingerprint", "only those of equal cause", stringSchema()),
			}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[DeadLetters](), nil}}, codes: []string{codeInvalidQuery, codeInvalidCursor},
		},
		{
			method: http.MethodGet, path: "/v1/dead-letters/{id}", access: accessViewer, byTenant: true, handle: (*Handler).getDeadLetter, name: "getDeadLetter",
			summary: "Read a dead letter with its message, attempts, transaction and audit",
			answers: []answerDoc{{200, "the dead letter", reflect.TypeFor[DeadLetterDetail](), []*huma.Param{etagHeader("dead letter")}}}, codes: []string{"invalid_id", codeNotFound},
		},
		{
			method: http.MethodPost, path: "/v1/dead-letters/{id}/replay", access: accessOperator, byTenant: true, handle: (*Handler).replayDeadLetter, name: "replayDeadLetter",
			summary: "Send a dead letter's operation again, with the same identity",
			params:  ifMatchParams("dead letter"),
			request: reflect.TypeFor[ReplayForm](), required: true,
			answers: []answerDoc{{202, "it was sent; its outcome comes later", reflect.TypeFor[Replaying](), nil}},
			codes:   append(append(actionCodes(), replayApprovalCodes()...), saga.CodeObsolete, saga.CodeNotDeadLetter, saga.CodeIllegal),
		},
		{
			method: http.MethodPost, path: "/v1/dead-letters/{id}/discard", access: accessOperator, byTenant: true, handle: (*Handler).discardDeadLetter, name: "discardDeadLetter",
			summary: "Give a dead letter up: a try cancels its transaction, a pivot's try is fenced, another operation is never done",
			params:  ifMatchParams("dead letter"),
			request: reflect.TypeFor[ReasonForm](), required: true,
			answers: []answerDoc{{200, "it is given up", reflect.TypeFor[Discarded](), nil}},
			codes:   append(actionCodes(), saga.CodeObsolete, saga.CodeNotDeadLetter, saga.CodeFence, saga.CodeIllegal),
		},
		{
			method: http.MethodPost, path: "/v1/transactions/{id}/resolve", access: accessOperator, byTenant: true, handle: (*Handler).resolveTransaction, name: "resolveTransaction",
			summary: "Give up all dead letters of a decided transaction, which ends it as resolved once the rest is settled",
			params:  ifMatchParams("transaction"),
			request: reflect.TypeFor[ReasonForm](), required: true,
			answers: []answerDoc{{200, "they are given up", reflect.TypeFor[Transaction](), []*huma.Param{etagHeader("transaction")}}},
			codes:   append(actionCodes(), saga.CodeObsolete, saga.CodeNotDeadLetter, saga.CodeOutstanding, saga.CodeIllegal),
		},
	}
}

// ifMatchParams are those of an operator's action.
func ifMatchParams(what string) []*huma.Param {
	return []*huma.Param{{In: "header", Name: "If-Match", Required: true, Description: "the ETag of the " + what + " that was read", Schema: stringSchema()}}
}

// actionCodes are those that every action of an operator may have.
func actionCodes() []string {
	return []string{
		"invalid_id", "invalid_json", codeMissingReason, codeInvalidReason, codeInvalidIfMatch, codeDuplicateHeader, saga.CodeTooLarge,
		codeMediaType, codeNoIfMatch, codeStale, codeNotFound, codeOverloaded, codeOutcomeUnknown,
	}
}
