package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Coordinator is what the API calls for clients; *coordinator.Coordinator is one.
type Coordinator interface {
	Submit(ctx context.Context, p coordinator.SubmitParams) (coordinator.Submitted, error)
	SubmitAndWait(ctx, waitCtx context.Context, p coordinator.SubmitParams) (coordinator.Submitted, coordinator.View, error)
	Get(ctx context.Context, caller coordinator.Caller, id saga.ID) (coordinator.View, error)
	Wait(ctx context.Context, caller coordinator.Caller, id saga.ID) (coordinator.View, error)
	FindByRequest(ctx context.Context, caller coordinator.Caller, requestID string) (coordinator.View, error)
	List(ctx context.Context, caller coordinator.Caller, f coordinator.Filter) ([]coordinator.View, error)
	Attempts(ctx context.Context, caller coordinator.Caller, id saga.ID) ([]saga.AttemptEnd, error)
	Explain(ctx context.Context, caller coordinator.Caller, id saga.ID) (coordinator.Explained, error)
	Watch(caller coordinator.Caller, id saga.ID) coordinator.Watcher
	Cancel(ctx context.Context, caller coordinator.Caller, id saga.ID, reason string) (coordinator.View, error)

	Definitions(ctx context.Context, name string) ([]coordinator.RegisteredDefinition, error)
	DefinitionByName(ctx context.Context, name string, version int) (coordinator.RegisteredDefinition, error)
	RegisterDefinition(ctx context.Context, p coordinator.RegisterParams) (coordinator.RegisteredDefinition, bool, error)
	DrainDefinition(ctx context.Context, p coordinator.DrainParams) (coordinator.RegisteredDefinition, error)
}

// Admin is what the API calls for operators; coordinator.Admin is one.
type Admin interface {
	DeadLetters(ctx context.Context, f dlq.Filter) ([]dlq.DeadLetter, error)
	DeadLetter(ctx context.Context, id uuid.UUID) (coordinator.DeadLetterDetail, error)
	Replay(ctx context.Context, p coordinator.LetterParams) error
	Discard(ctx context.Context, p coordinator.LetterParams) (*coordinator.View, error)
	Resolve(ctx context.Context, p coordinator.ResolveParams) (coordinator.View, error)

	Edit(ctx context.Context, p coordinator.EditParams) error
	Approve(ctx context.Context, p coordinator.ApproveParams) (dlq.Approval, error)
	Approvals(ctx context.Context, f dlq.ApprovalFilter) ([]dlq.Approval, error)
	RevokeApproval(ctx context.Context, p coordinator.RevokeParams) (dlq.Approval, error)

	Pause(ctx context.Context, p coordinator.PauseParams) (coordinator.Paused, bool, error)
	Resume(ctx context.Context, p coordinator.ResumeParams) (coordinator.Paused, error)
	Pauses(ctx context.Context) ([]coordinator.Paused, error)
	Participants(ctx context.Context) (coordinator.ParticipantStates, error)
}

// Desk is what the API calls for operators where it takes the coordinator's database; coordinator.Admin is one.
type Desk interface {
	Groups(ctx context.Context, f dlq.GroupFilter) ([]dlq.Group, error)
	Group(ctx context.Context, fingerprint, tenant string) (coordinator.GroupDetail, error)
	NoteGroup(ctx context.Context, p coordinator.GroupParams) (dlq.Note, error)
	InquireGroup(ctx context.Context, p coordinator.GroupParams) error
	Inquire(ctx context.Context, p coordinator.InquireParams) error
	Audit(ctx context.Context, f dlq.AuditFilter) ([]dlq.AuditEntry, error)

	CreateJob(ctx context.Context, p dlq.JobParams) (coordinator.JobDetail, error)
	CommandJob(ctx context.Context, p coordinator.JobParams) (coordinator.JobDetail, error)
	Job(ctx context.Context, id uuid.UUID, tenant string) (coordinator.JobDetail, error)
	Jobs(ctx context.Context, f dlq.JobFilter) ([]dlq.Job, error)
	JobItems(ctx context.Context, id uuid.UUID, tenant string, f dlq.JobItemFilter) ([]dlq.JobItem, error)
}

// Config says what the API serves. Coordinator is required.
type Config struct {
	Coordinator  Coordinator
	Admin        Admin                       // default: the Coordinator's own, if it has one
	Desk         Desk                        // default: the Coordinator's own, if it has one; none: its routes answer 501
	Tokens       Tokens                      // of the routes for tokens; default: none, and the routes are forbidden
	Log          *slog.Logger                // default: slog.Default()
	Authenticate Authenticator               // default: nobody is let in
	Ready        func(context.Context) error // what /readyz asks; default: always ready

	// Denied writes an entry of the audit for a call that was not let in; default: the Admin's RecordDenied, if it has one.
	Denied func(context.Context, dlq.AuditEntry) error

	ProblemBase        string        // what problem types begin with; default "/problems/", which this API serves
	SubmitTimeout      time.Duration // until a submission or action whose outcome is not known yet is answered; default 10s
	WaitersMax         int           // callers that wait at one time; default 10,000
	StreamsMax         int           // streams of events at one time; default 1,000
	Heartbeat          time.Duration // of a stream on which nothing happens; default 15s
	StreamWriteTimeout time.Duration // of one event: who reads more slowly is dropped; default 10s
	BodyBytesMax       int64         // of all request bodies held at one time; default 256 MiB
	DeniedRowsMax      int           // of the audit that one caller's denied calls may write in a minute; default 30
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.ProblemBase = cmp.Or(c.ProblemBase, problemPath)
	c.SubmitTimeout = cmp.Or(c.SubmitTimeout, 10*time.Second)
	c.WaitersMax = cmp.Or(c.WaitersMax, 10_000)
	c.StreamsMax = cmp.Or(c.StreamsMax, 1000)
	c.Heartbeat = cmp.Or(c.Heartbeat, streamHeartbeat)
	c.StreamWriteTimeout = cmp.Or(c.StreamWriteTimeout, streamWriteTimeout)
	c.BodyBytesMax = cmp.Or(c.BodyBytesMax, 256<<20)
	c.DeniedRowsMax = cmp.Or(c.DeniedRowsMax, deniedRowsMax)
	if c.Authenticate == nil {
		c.Authenticate = func(*http.Request) (Identity, error) { return Identity{}, ErrUnauthenticated }
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	if owner, ok := c.Coordinator.(interface{ Admin() coordinator.Admin }); ok {
		if c.Admin == nil {
			c.Admin = owner.Admin()
		}
		if c.Desk == nil {
			c.Desk = owner.Admin()
		}
	}
	if admin, ok := c.Admin.(interface {
		RecordDenied(context.Context, dlq.AuditEntry) error
	}); ok && c.Denied == nil {
		c.Denied = admin.RecordDenied
	}
	return c
}

// Handler serves the API.
type Handler struct {
	cfg     Config
	mux     *http.ServeMux
	methods []string // that any route has
	spec    []byte   // the OpenAPI document
	origins http.CrossOriginProtection
	denials *denials

	waiting   atomic.Int64 // callers that wait
	streams   atomic.Int64 // of events
	bodyBytes atomic.Int64 // of request bodies that are held
	draining  context.Context
	drain     context.CancelFunc
}

// New makes the API's handler. It panics if the configuration has no Coordinator.
func New(cfg Config) *Handler {
	if cfg.Coordinator == nil {
		panic("api: Config.Coordinator is required")
	}
	h := &Handler{cfg: cfg.withDefaults(), mux: http.NewServeMux(), methods: []string{http.MethodGet, http.MethodPost, http.MethodDelete}}
	h.denials = newDenials(h.cfg.Denied, h.cfg.DeniedRowsMax, h.cfg.Log)
	h.draining, h.drain = context.WithCancel(context.Background())
	list := routes()
	h.spec = openAPI(list)
	for i := range list {
		h.mux.HandleFunc(list[i].method+" "+list[i].path, func(w http.ResponseWriter, r *http.Request) {
			h.serve(callOf(r), &list[i])
		})
	}
	return h
}

// StopWaiting ends all waits and streams at once, so that a server can shut down: those who wait get the transaction as
// it is. What was only counted of denied calls is written into the audit. Calling it twice is safe.
func (h *Handler) StopWaiting() {
	h.drain()
	h.denials.flush()
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	defer c.finish()
	if path.Clean(r.URL.Path) != r.URL.Path {
		c.fail(problemOf(codeNoRoute))
		return
	}
	if _, pattern := h.mux.Handler(c.r); pattern == "" {
		c.failUnrouted(h.allowed(c.r))
		return
	}
	h.mux.ServeHTTP(c.w, c.r)
}

// allowed returns the methods that the request's path has.
func (h *Handler) allowed(r *http.Request) []string {
	var allowed []string
	for _, method := range h.methods {
		other := *r
		other.Method = method
		if _, pattern := h.mux.Handler(&other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// serve checks what all routes have in common and calls the route's handler.
func (h *Handler) serve(c *call, rt *route) {
	c.route = rt
	if err := h.origins.Check(c.r); err != nil {
		c.fail(problemOf(codeCrossOrigin))
		return
	}
	if rt.access != accessPublic {
		if err := c.authenticate(rt); err != nil {
			c.fail(err)
			return
		}
		if err := c.readQuery(rt); err != nil {
			c.fail(err)
			return
		}
	}
	if err := rt.handle(h, c); err != nil {
		c.fail(err)
	}
}
