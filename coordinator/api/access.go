package api

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/dlq"
)

// access says who may call a route.
type access int

const (
	accessPublic   access = iota // anyone
	accessSubmit                 // clients
	accessClient                 // clients, for what is their own; viewers, for what is their tenant's
	accessCancel                 // clients, for what is their own; operators, for what is their tenant's
	accessViewer                 // whoever may read what operators read
	accessOperator               // whoever may act
	accessApprover               // whoever may approve what others ask for
	accessAdmin                  // whoever makes tokens
)

// Who may do what. Operators and approvers read too; admins do what both do, for they could make themselves a token
// that does. Being a client is a role of its own: it says whose request ids they are (I1).
const (
	rolesAdmin    = token.Admin
	rolesOperator = token.Operator | rolesAdmin
	rolesApprover = token.Approver | rolesAdmin
	rolesViewer   = token.Viewer | rolesOperator | rolesApprover
)

// roles returns those that suffice, each alone.
func (a access) roles() token.Roles {
	switch a {
	case accessSubmit:
		return token.Client
	case accessClient:
		return token.Client | rolesViewer
	case accessCancel:
		return token.Client | rolesOperator
	case accessViewer:
		return rolesViewer
	case accessOperator:
		return rolesOperator
	case accessApprover:
		return rolesApprover
	case accessAdmin:
		return rolesAdmin
	default:
		return 0
	}
}

// caller is who submits.
func (i Identity) caller() coordinator.Caller {
	return coordinator.Caller{Tenant: i.Tenant, Client: i.Client}
}

// reader is who reads transactions: its own, or with a role that reads what operators read its tenant's.
func (i Identity) reader() coordinator.Caller { return i.with(rolesViewer) }

// canceller is who cancels transactions.
func (i Identity) canceller() coordinator.Caller { return i.with(rolesOperator) }

func (i Identity) with(roles token.Roles) coordinator.Caller {
	c := i.caller()
	switch {
	case !i.Roles.Any(roles):
	case i.AllTenants:
		c.Reach, c.Actor = coordinator.ReachAll, i.Actor
	default:
		c.Reach, c.Actor = coordinator.ReachTenant, i.Actor
	}
	return c
}

// scope returns the tenant that the caller is kept to, "" if it may act on all.
func (i Identity) scope() string {
	if i.AllTenants {
		return ""
	}
	return i.Tenant
}

// covers reports whether what is the tenant's may be shown to the caller (I-14).
func (i Identity) covers(tenant string) bool { return i.AllTenants || tenant == i.Tenant }

// check finds mistakes of an Authenticator: nobody gets further than an identity says.
func (i Identity) check() error {
	switch {
	case i.Tenant == "" && !i.AllTenants:
		return fmt.Errorf("%w: the identity has no tenant", ErrForbidden)
	case i.Roles.Any(token.Client) && (i.Tenant == "" || i.Client == ""):
		return fmt.Errorf("%w: the identity is a client without tenant or name", ErrForbidden)
	}
	return nil
}

// authenticate finds out who calls and whether they may call the route. A route for operators that does not say that
// it keeps to the caller's tenant is for those of all tenants.
func (c *call) authenticate(rt *route) error {
	id, err := c.h.cfg.Authenticate(c.r)
	if err != nil {
		return err
	}
	c.id = id
	if err := id.check(); err != nil {
		return err
	}
	switch {
	case !id.Roles.Any(rt.access.roles()):
		return fmt.Errorf("%w: it needs one of the roles %s", ErrForbidden, rt.access.roles())
	case rt.access >= accessViewer && !rt.byTenant && !id.AllTenants:
		return fmt.Errorf("%w: it is about what all tenants share", ErrForbidden)
	case rt.access >= accessViewer && c.h.cfg.Admin == nil, rt.access == accessAdmin && c.h.cfg.Tokens == nil:
		return fmt.Errorf("%w: this server has nothing for operators", ErrForbidden)
	}
	return nil
}

// security says in the document which roles suffice.
func (rt *route) security() []map[string][]string {
	roles := rt.access.roles().Names()
	return []map[string][]string{{"bearer": roles}, {}}
}

// denied makes the audit entry of a call that was not let in or asked for what is not the caller's; nil if it was neither.
func (c *call) denied(p *Problem) *dlq.AuditEntry {
	if c.route == nil || c.route.access == accessPublic || p.Code != codeUnauthenticated && p.Code != codeForbidden && p.Code != codeNotFound {
		return nil
	}
	e := &dlq.AuditEntry{
		Actor: c.id.Actor, Action: actionDenied, Object: c.route.method + " " + c.route.path, Tenant: c.id.scope(),
		Detail: p.Code + ", HTTP request " + c.requestID,
	}
	if e.Actor == "" {
		e.Actor = actorNobody
	}
	if id, err := uuid.Parse(c.r.PathValue("id")); err == nil { // anything else may be a token that was put into the wrong place
		e.Detail = p.Code + " of " + id.String() + ", HTTP request " + c.requestID
	}
	return e
}

const (
	actionDenied = "denied"
	actorNobody  = "nobody" // a caller without a valid credential
)
