package main

import (
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/schema"
)

// tokenFlags are those that all commands for tokens have.
type tokenFlags struct {
	dsn    string
	format string
}

func newToken() *cobra.Command {
	f := &tokenFlags{format: formatTable}
	cmd := &cobra.Command{
		Use: "token", Short: "Make, list and revoke the tokens of those who call the API",
		Long: "token makes, lists and revokes the bearer tokens of those who call the API. Like migrate it works on the\n" +
			"coordinator's database, so that there can be a first one; the API has the same for admins.",
	}
	cmd.PersistentFlags().StringVar(&f.dsn, "database-url", "", "PostgreSQL of the coordinator (COORDINATOR_DATABASE_URL or DATABASE_URL)")
	formats := []string{formatTable, formatJSON, formatYAML}
	cmd.PersistentFlags().VarP(choice{&f.format, formats}, "output", "o", "how to print data: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.AddCommand(newTokenCreate(f), newTokenList(f), newTokenRevoke(f))
	return cmd
}

// open connects to the database. end is for the end.
func (f *tokenFlags) open(cmd *cobra.Command) (store *token.Store, end func(), err error) {
	coordinatorDatabase(&f.dsn)
	if f.dsn == "" {
		return nil, nil, usageError("no database; give --database-url or set DATABASE_URL")
	}
	var pool *pgxpool.Pool
	pool, err = pg.Open(cmd.Context(), pg.Config{DSN: f.dsn, MaxConns: 2, ApplicationName: "coordinator token"})
	if err != nil {
		return nil, nil, fmt.Errorf("%w; check --database-url (DATABASE_URL)", err)
	}
	if err := schema.Check(cmd.Context(), f.dsn); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return token.New(pool), pool.Close, nil
}

// operatingUser is who the audit names for what the command line did to the database.
func operatingUser() string {
	if u, err := user.Current(); err == nil {
		return "command line of " + u.Username
	}
	return "command line"
}

// tokenForm is what the commands print: the members are those of the API.
type tokenForm struct {
	ID         uuid.UUID `json:"id"`
	Tenant     string    `json:"tenant"`
	Client     string    `json:"client,omitzero"`
	Actor      string    `json:"actor"`
	Roles      []string  `json:"roles"`
	State      string    `json:"state"`
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  string    `json:"created_by"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	Secret     string    `json:"token,omitzero"`
}

func formOfToken(t *token.Token) tokenForm {
	f := tokenForm{
		ID: t.ID, Tenant: t.Tenant, Client: t.Client, Actor: t.Actor, Roles: t.Roles.Names(), State: t.State(), CreatedAt: t.CreatedAt,
		CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt, LastUsedAt: t.LastUsedAt, RevokedAt: t.RevokedAt,
	}
	if f.Tenant == "" {
		f.Tenant = token.AllTenants
	}
	return f
}

func newTokenCreate(f *tokenFlags) *cobra.Command {
	var p token.CreateParams
	var roles []string
	var life string
	cmd := &cobra.Command{
		Use: "create --tenant NAME --roles ROLES", Short: "Make a token, and print it: nobody can tell it again", Args: cobra.NoArgs,
		Example: "  coordinator token create --tenant '*' --actor root --roles admin > admin.token\n" +
			"  coordinator token create --tenant acme --client shop --roles client --expires 720h > shop.token",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Roles, err = token.ParseRoles(roles); err != nil {
				return usageError("--roles: %w", err)
			}
			if p.Life, err = token.ParseLife(life); err != nil {
				return usageError("--expires: %w", err)
			}
			p.By = operatingUser()
			store, end, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer end()
			t, secret, err := store.Create(cmd.Context(), p)
			if err != nil {
				return tokenError(err)
			}
			form := formOfToken(&t)
			if f.format == formatTable {
				fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: token %s of %s is made, for tenant %s with roles %s; keep it, it is shown this once\n",
					form.ID, form.Actor, form.Tenant, t.Roles)
				fmt.Fprintln(cmd.OutOrStdout(), secret)
				return nil
			}
			form.Secret = secret
			return newOutput(cmd, f.format).data(form, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.Tenant, "tenant", "", "whose token it is; "+token.AllTenants+" for all tenants (required)")
	flags.StringVar(&p.Client, "client", "", "whose request ids and transactions they are; required with the role client")
	flags.StringVar(&p.Actor, "actor", "", "the name in the audit (default: the client)")
	flags.StringSliceVar(&roles, "roles", nil, "what it may do: "+strings.Join(token.RoleNames(), ", ")+" (required)")
	flags.StringVar(&life, "expires", "", "how long it is valid, such as 720h, or never (default "+token.DefaultLife.String()+")")
	flags.StringVar(&p.Reason, "reason", "", "why, for the audit")
	return cmd
}

func tokenError(err error) error {
	if errors.Is(err, token.ErrInvalid) {
		return usageError("%w", err)
	}
	return err
}

func newTokenList(f *tokenFlags) *cobra.Command {
	var filter token.Filter
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens, the newest first; never the tokens themselves", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, end, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer end()
			list, err := store.List(cmd.Context(), filter)
			if err != nil {
				return err
			}
			forms := make([]tokenForm, 0, len(list))
			for i := range list {
				forms = append(forms, formOfToken(&list[i]))
			}
			return newOutput(cmd, f.format).data(forms, func(t *table) {
				t.head("ID", "TENANT", "CLIENT", "ACTOR", "ROLES", "STATE", "EXPIRES", "LAST USED")
				for i := range forms {
					t.row(forms[i].ID.String(), forms[i].Tenant, forms[i].Client, forms[i].Actor, strings.Join(forms[i].Roles, ","), forms[i].State,
						timeOrNever(forms[i].ExpiresAt), timeOrNever(forms[i].LastUsedAt))
				}
			})
		},
	}
	cmd.Flags().StringVar(&filter.Tenant, "tenant", "", "only those of the tenant")
	cmd.Flags().BoolVar(&filter.Ended, "ended", false, "those that have expired or were revoked too")
	cmd.Flags().IntVar(&filter.Limit, "limit", 100, "most tokens to print")
	return cmd
}

func timeOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return timeText(t)
}

func newTokenRevoke(f *tokenFlags) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token: within five seconds nobody is let in with it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil || len(args[0]) != 36 {
				return usageError("that is not the ID of a token; \"coordinator token list\" shows them") // it may be the token itself
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			store, end, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer end()
			if err := confirm(cmd, yes, fmt.Sprintf("Revoke token %s? Whoever uses it is let in no more.", id)); err != nil {
				return err
			}
			t, err := store.Revoke(cmd.Context(), token.RevokeParams{By: operatingUser(), Reason: strings.TrimSpace(reason), ID: id})
			if err != nil {
				return fmt.Errorf("%w; \"coordinator token list\" shows those that there are", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: token %s of %s is revoked\n", t.ID, t.Actor)
			if f.format == formatTable {
				return nil
			}
			return newOutput(cmd, f.format).data(formOfToken(&t), nil)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}
