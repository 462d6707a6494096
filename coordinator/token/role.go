package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Roles is a set of what a caller may do.
type Roles uint8

// The roles. Which of them a route wants is said in the API's document.
const (
	Client   Roles = 1 << iota // submits, reads and cancels transactions of its own
	Viewer                     // reads what operators read
	Operator                   // acts on dead letters, transactions, pauses and definitions; reads too
	Approver                   // approves what others ask for; reads too
	Admin                      // makes and revokes tokens, and does what operators and approvers do

	// AllRoles is whoever may do everything.
	AllRoles = Client | Viewer | Operator | Approver | Admin
)

var roleNames = []string{"client", "viewer", "operator", "approver", "admin"}

// RoleNames returns the names of all roles.
func RoleNames() []string { return slices.Clone(roleNames) }

// Any reports whether r has one of the roles at least.
func (r Roles) Any(of Roles) bool { return r&of != 0 }

// Names returns the names of the roles, in the order in which they are declared.
func (r Roles) Names() []string {
	names := []string{}
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String returns the names with commas between them.
func (r Roles) String() string { return strings.Join(r.Names(), ",") }

// ParseRoles reads names of roles.
func ParseRoles(names []string) (Roles, error) {
	var r Roles
	for _, name := range names {
		i := slices.Index(roleNames, name)
		if i < 0 {
			return 0, fmt.Errorf("%w: a role that there is not; use %s", ErrInvalid, strings.Join(roleNames, ", "))
		}
		r |= 1 << i
	}
	if r == 0 {
		return 0, fmt.Errorf("%w: no role; use %s", ErrInvalid, strings.Join(roleNames, ", "))
	}
	return r, nil
}

// ErrInvalid says that a token cannot be made as asked for. The text of the error says what to change, and holds
// nothing of what was given.
var ErrInvalid = errors.New("token: not valid")
