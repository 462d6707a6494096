package api

import (
	"net/http"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

// Codes of problems. They are stable: programs match them.
const (
	codeUnauthenticated = "unauthenticated"
	codeForbidden       = "forbidden"
	codeCrossOrigin     = "cross_origin"
	codeNotFound        = "not_found"
	codeNoRoute         = "no_such_route"
	codeMethod          = "method_not_allowed"
	codeMediaType       = "unsupported_media_type"
	codeDuplicateHeader = "duplicate_header"
	codeInvalidQuery    = "invalid_query"
	codeInvalidCursor   = "invalid_cursor"
	codeMissingReason   = "missing_reason"
	codeInvalidReason   = "invalid_reason"
	codeInvalidIfMatch  = "invalid_if_match"
	codeNoIfMatch       = "precondition_required"
	codeStale           = "stale"
	codeDefinitionTaken = "definition_taken"
	codeIncomplete      = "incomplete_body"
	codeSlow            = "request_timeout"
	codeKeyReused       = "key_reused"
	codeIDTaken         = "id_taken"
	codePastRetention   = "past_retention"
	codeOverloaded      = "overloaded"
	codeRateLimited     = "rate_limited"
	codeOutcomeUnknown  = "outcome_unknown"
	codeUnavailable     = "unavailable"
	codeNotReady        = "not_ready"
	codeInternal        = "internal"
	codeInvalid         = "invalid"
	codeTooManyNotes    = "too_many_notes"
	codeUnsupported     = "unsupported"
	codePlanChanged     = "plan_changed"
	codeNothingSelected = "nothing_selected"
	codeTooManySelected = "too_many_selected"
)

// codeInfo is what is said about a code, whatever the request was.
type codeInfo struct {
	status       int
	title        string // what is wrong
	advice       string // what to do
	retrySeconds int    // of Retry-After; zero: no such header
}

// infoOf returns what is known about a code; codes that a newer core may bring are plainly invalid input.
func infoOf(code string) codeInfo {
	if info, ok := codes[code]; ok {
		return info
	}
	return codes[codeInvalid]
}

const (
	adviceDefinition = "Change the definition. saga.Define in Go says the same before anything is sent."
	adviceMember     = "Change the member that `field` names."
)

// codes has every code that the API answers with.
var codes = map[string]codeInfo{
	codeUnauthenticated: {http.StatusUnauthorized, "There is no valid credential.", "Send a valid one. Without credentials only requests from this machine to a loopback address are let in.", 0},
	codeForbidden:       {http.StatusForbidden, "The caller is not allowed to do this.", "Use a credential with the role that it needs, and address the server by a name that it serves.", 0},
	codeCrossOrigin:     {http.StatusForbidden, "A web page of another origin sent this.", "Send it from a program, or from a page of this server.", 0},
	codeNotFound:        {http.StatusNotFound, "There is no such thing, or it belongs to somebody else.", "Check the id, and the credential it was made with.", 0},
	codeNoRoute:         {http.StatusNotFound, "There is no such route.", "See /openapi.json for those that exist.", 0},
	codeMethod:          {http.StatusMethodNotAllowed, "The route does not have this method.", "Use one that the header Allow names.", 0},
	codeMediaType:       {http.StatusUnsupportedMediaType, "The body is not plain JSON.", "Send Content-Type: application/json, in UTF-8, without Content-Encoding.", 0},
	codeDuplicateHeader: {http.StatusBadRequest, "A header is given more than once.", "Send the header that `field` names once.", 0},
	codeInvalidQuery:    {http.StatusBadRequest, "The query is not valid.", "Use each documented parameter once at most, with a documented value; none is ignored in silence.", 0},
	codeInvalidCursor:   {http.StatusBadRequest, "The cursor is not one that this list gave.", "Use next_cursor of the last page as it is, or none for the first page.", 0},
	codeMissingReason:   {http.StatusBadRequest, "An operator's action needs a reason.", `Send {"reason": "…"}: it is kept in the audit.`, 0},
	codeInvalidReason:   {http.StatusBadRequest, "The reason is not valid.", "Use at most 1024 bytes of text.", 0},
	codeInvalidIfMatch:  {http.StatusBadRequest, "If-Match is not one entity tag.", `Send the ETag of the answer that was decided on, as it is: If-Match: "3".`, 0},
	codeNoIfMatch:       {http.StatusPreconditionRequired, "An operator's action needs If-Match.", "Read the dead letter or the transaction, and send its ETag.", 0},
	codeStale:           {http.StatusPreconditionFailed, "The dead letter or transaction has changed since it was read.", "Read it again and decide again.", 0},
	codeDefinitionTaken: {http.StatusConflict, "Another definition is registered under that name and version.", "Raise the version. A registered definition never changes.", 0},
	codeIncomplete:      {http.StatusBadRequest, "The body ended early or is not well-formed HTTP.", "Send it again with the same Idempotency-Key.", 0},
	codeSlow:            {http.StatusRequestTimeout, "The body took too long to arrive.", "Send it again with the same Idempotency-Key.", 0},
	codeKeyReused:       {http.StatusUnprocessableEntity, "The Idempotency-Key was used before with other content.", "Send exactly the bytes of the first time, or a new key for a new transaction.", 0},
	codeIDTaken:         {http.StatusConflict, "The transaction id is taken.", "Make a new id, or none: the coordinator makes one.", 0},
	codePastRetention:   {http.StatusGone, "It is past retention: nothing can be confirmed about it.", "Look in your own records what became of it. It is not done again; for a new transaction use a new key.", 0},
	codeOverloaded:      {http.StatusTooManyRequests, "The coordinator is over capacity; nothing was done.", "Try again after Retry-After, with the same Idempotency-Key.", 1},
	codeRateLimited:     {http.StatusTooManyRequests, "There are too many submissions per second, of this tenant or of all together; nothing was done.", "Try again after Retry-After, with the same Idempotency-Key. What was accepted before is still answered.", 1},
	codeOutcomeUnknown:  {http.StatusServiceUnavailable, "Whether it happened is not known yet.", "Ask again with the same Idempotency-Key, or read the object. Do not take it for failed.", 1},
	codeUnavailable:     {http.StatusServiceUnavailable, "Something that the coordinator needs cannot be reached.", "Try again after Retry-After, with the same Idempotency-Key.", 2},
	codeNotReady:        {http.StatusServiceUnavailable, "The coordinator is not ready.", "Send requests to another one, or wait.", 2},
	codeInternal:        {http.StatusInternalServerError, "The coordinator failed.", "Report it with the X-Request-Id of the answer; the log has the details. Whether the request had an effect is not known.", 0},
	codeInvalidToken:    {http.StatusBadRequest, "A token cannot be made as asked for.", "Change what the detail names.", 0},
	codeInvalid:         {http.StatusBadRequest, "The request is not valid.", adviceMember, 0},

	codeTooManyNotes: {http.StatusConflict, "The group has as many notes as it may have.", "Keep the rest elsewhere, and write a note that says where.", 0},
	codeUnsupported:  {http.StatusNotImplemented, "This coordinator has no database for that.", "Ask a real coordinator: the one in memory that tests use keeps no groups, no jobs and no list of the audit.", 0},

	codePlanChanged:     {http.StatusPreconditionFailed, "The plan that was sent is not the job's.", "Read the job, look at what it will do, and send its plan_sha256.", 0},
	codeNothingSelected: {http.StatusConflict, "No open dead letter is selected.", "List the dead letters with the same filters to see why.", 0},
	codeTooManySelected: {http.StatusConflict, "More than 20,000 dead letters are selected.", "Select fewer: by fingerprint, participant, action or cause.", 0},

	coordinator.CodeEmptySelection: {http.StatusBadRequest, "The selection is empty.", "Name a fingerprint, participant, action, cause or transaction.", 0},
	saga.CodeJobState:              {http.StatusConflict, "The job's state does not allow it.", "Read the job again.", 0},

	saga.CodeTooLarge:            {http.StatusRequestEntityTooLarge, "The request is too large.", "Keep large data elsewhere and pass a reference. A submission has at most 1 MiB, an input 128 KiB.", 0},
	"invalid_json":               {http.StatusBadRequest, "The JSON cannot be read, or a member has the wrong type or is not known.", "Send one JSON value with the documented members only.", 0},
	"invalid_utf8":               {http.StatusBadRequest, "The body is not UTF-8.", "Encode it in UTF-8 (RFC 8259); other bytes go into inputs_base64.", 0},
	"duplicate_member":           {http.StatusBadRequest, "A member is given twice.", "Give it once: readers of JSON differ in which one counts.", 0},
	"missing_definition":         {http.StatusBadRequest, "The submission has no definition.", "Give the definition as an object, or the name of a registered one.", 0},
	"invalid_deadline":           {http.StatusBadRequest, "The deadline is not valid.", "Give timeout or deadline, not both; a deadline lies after the start and within 30 days of it.", 0},
	"invalid_id":                 {http.StatusBadRequest, "The id is not valid.", "Use a UUID as 36 characters. A transaction's own id is a version 7 UUID, made within five minutes of sending it.", 0},
	"invalid_start":              {http.StatusBadRequest, "The start is too far away.", "Start within 30 days.", 0},
	"invalid_duration":           {http.StatusBadRequest, "A duration is not valid or outside of its limits.", `Use a number and a unit, such as "250ms", "30s" or "2h", within the limits that the detail names.`, 0},
	"invalid_content_type":       {http.StatusBadRequest, "The type of a value is not valid.", "Use a media type such as application/x-protobuf. JSON goes into inputs.", 0},
	"invalid_base64":             {http.StatusBadRequest, "A value is not base64.", "Use the standard alphabet with padding (RFC 4648, section 4).", 0},
	"invalid_request_id":         {http.StatusBadRequest, "The request id is not valid.", "Use 1 to 255 visible ASCII characters without spaces as Idempotency-Key.", 0},
	"invalid_name":               {http.StatusBadRequest, "A name is not valid.", "Use 1 to 64 letters, digits, '-' or '_', beginning with a letter or digit.", 0},
	"invalid_version":            {http.StatusBadRequest, "The definition's version is not valid.", adviceDefinition, 0},
	"invalid_value":              {http.StatusBadRequest, "A member has a value that it cannot have.", adviceMember, 0},
	"invalid_steps":              {http.StatusBadRequest, "The number of steps is not valid.", "Give 1 to 128 steps.", 0},
	"invalid_attempts":           {http.StatusBadRequest, "A number of attempts is not valid.", "Use 1 to 10000.", 0},
	"unknown_step":               {http.StatusBadRequest, "A step is named that the definition does not have.", "Name a step of the same definition.", 0},
	"duplicate_step":             {http.StatusBadRequest, "Two steps have one name.", adviceDefinition, 0},
	"duplicate_after":            {http.StatusBadRequest, "An after list names a step twice.", adviceDefinition, 0},
	"too_many_after":             {http.StatusBadRequest, "An after list is too long.", "Name at most 8 steps; put a step between to gather more.", 0},
	"cycle":                      {http.StatusBadRequest, "Steps wait for each other in a circle.", adviceDefinition, 0},
	"two_pivots":                 {http.StatusBadRequest, "There is more than one pivot.", "Keep one: a transaction has a single go/no-go step.", 0},
	"pivot_after_retriable":      {http.StatusBadRequest, "The pivot comes after a retriable step, which runs only once the decision is made.", "Start the retriable step after the pivot.", 0},
	"compensable_after_decision": {http.StatusBadRequest, "A saga or tcc step comes after the decision, when it can no longer be cancelled.", "Move it before the pivot, or make it retriable.", 0},

	coordinator.CodeUnknownDefinition: {http.StatusBadRequest, "No definition of that name and version is registered.", "Register it, or give the definition as an object.", 0},
	notify.CodeInvalidURL:             {http.StatusBadRequest, "The URL cannot be a webhook's.", "Use https and an address of the public internet, without user and fragment. --webhook-allow-private of the coordinator allows others.", 0},
	notify.CodeInvalidSecret:          {http.StatusBadRequest, "The webhook's secret is not valid.", "Use whsec_ and 24 to 64 random bytes in base64, or none: one is made.", 0},
	notify.CodeTooManyWebhooks:        {http.StatusConflict, "There are 50 webhooks.", "Delete one that is not needed.", 0},

	coordinator.CodeTooManyPauses:      {http.StatusConflict, "Too much is paused.", "Resume something, or pause a larger scope.", 0},
	coordinator.CodeDefinitionDraining: {http.StatusConflict, "The definition is being drained: it takes no new transactions.", "Name a version that is active, or the name alone for the newest that is.", 0},

	saga.CodeNotCancellable:   {http.StatusConflict, "It is too late to cancel: the decision to commit has been made, or the transaction has ended.", "Read the transaction for what became of it. Undo a committed one with a transaction of its own.", 0},
	saga.CodeObsolete:         {http.StatusConflict, "The transaction has been decided or has ended without this operation.", "Nothing is left to replay or to give up.", 0},
	saga.CodeNotDeadLetter:    {http.StatusConflict, "There is no open dead letter: its replay is in flight, it has ended, or it is no operation.", "Read it again; a replay in flight ends by itself.", 0},
	saga.CodeFence:            {http.StatusConflict, "A fence cannot be discarded: only its reply can tell whether the pivot has executed.", "Replay it.", 0},
	saga.CodeOutstanding:      {http.StatusConflict, "Operations without a dead letter are still under way.", "Wait for them, then ask again.", 0},
	saga.CodeApprovalRequired: {http.StatusConflict, "This replay needs the approval of a second person: what became of the operation is not known, the participant holds other content, or the coordinator wants one for every replay.", "Let somebody else approve it (POST …/approvals), and name the approval. If nobody else is there, set break_glass.", 0},
	saga.CodeApprovalExpired:  {http.StatusConflict, "The approval has expired.", "Let somebody else approve it again.", 0},
	saga.CodeApprovalUsed:     {http.StatusConflict, "The approval has been used; it was good for one replay.", "Read the dead letter: it may have been replayed. Another replay needs another approval.", 0},
	saga.CodeApprovalRevoked:  {http.StatusConflict, "The approval was revoked.", "Ask who revoked it; the audit of the dead letter says why.", 0},
	saga.CodeApprovalMismatch: {http.StatusConflict, "The approval is not one of this dead letter as it is now: it is of another one, or it has changed since.", "Let somebody else look at it as it is now, and approve that.", 0},
	saga.CodeApprovalOwn:      {http.StatusConflict, "Whoever approves a replay must be somebody else than who replays it.", "Let somebody else replay or approve it. If nobody else is there, set break_glass.", 0},
	saga.CodeBreakGlassReason: {http.StatusBadRequest, "The reason is too short for a replay that nobody else has approved.", "Say in at least 30 bytes why no second person can approve it, and how you know that it is right.", 0},
	saga.CodeNotReserved:      {http.StatusConflict, "The operation is being edited, and its participant has not reserved the next revision yet.", "Read the dead letter again in a moment. If it stays so, edit it again: that asks the participant again.", 0},
	saga.CodeEditDisabled:     {http.StatusConflict, "The coordinator does not let operators edit.", "Start it with --allow-edit, or repair the cause and replay what was sent.", 0},
	saga.CodeIllegal:          {http.StatusConflict, "The transaction's present state does not allow it.", "Read the transaction again.", 0},
}
