package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/saga"
)

// Options say what is looked at. Only Coordinator has no default.
type Options struct {
	Coordinator  *pgxpool.Pool            // the coordinator's database
	Participants map[string]*pgxpool.Pool // by name; absent ones are not looked at. Two names may share a pool
	Since        time.Time                // only transactions made since then; zero: all

	PageMax          int                        // transactions looked at in one snapshot; default 2,000
	FindingsMax      int                        // of one check; default 100
	RecheckAfter     time.Duration              // how long to wait before what looks wrong is looked at again; default 2s
	StatementTimeout time.Duration              // of one statement; default 30s
	Progress         func(transactions, at int) // called after each page: how many so far, and per cent of the time range
}

func (o Options) withDefaults() Options {
	if o.PageMax == 0 {
		o.PageMax = 2000
	}
	if o.FindingsMax == 0 {
		o.FindingsMax = 100
	}
	if o.RecheckAfter == 0 {
		o.RecheckAfter = 2 * time.Second
	}
	if o.StatementTimeout == 0 {
		o.StatementTimeout = 30 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	return o
}

// Status is what came of a check.
type Status string

// What can come of a check.
const (
	StatusOK         Status = "ok"
	StatusProblems   Status = "problems"
	StatusSkipped    Status = "skipped"    // it could not be asked: Note says why
	StatusUnfinished Status = "unfinished" // it was not asked of everything: Note says why
)

// Finding is something that must not be.
type Finding struct {
	Object string `json:"object"` // the id of a transaction, nearly always; else of a message, or an account
	Detail string `json:"detail"`
}

// Result is what came of one check.
type Result struct {
	Name     string    `json:"name"`
	Rule     string    `json:"rule"`
	What     string    `json:"what"` // that has to be so
	Status   Status    `json:"status"`
	Findings []Finding `json:"findings"`
	More     bool      `json:"more,omitempty"` // there may be more than those
	Note     string    `json:"note,omitempty"`
}

// Report is what came of all checks.
type Report struct {
	At           time.Time `json:"at"` // of the coordinator database's clock, at the beginning
	Since        time.Time `json:"since,omitzero"`
	Transactions int       `json:"transactions"` // that were looked at
	Participants []string  `json:"participants"`
	Checks       []Result  `json:"checks"`
}

// Problems counts the checks that found something.
func (r *Report) Problems() int { return r.count(StatusProblems) }

// Unfinished counts the checks that were not asked of everything.
func (r *Report) Unfinished() int { return r.count(StatusUnfinished) }

func (r *Report) count(s Status) (n int) {
	for i := range r.Checks {
		if r.Checks[i].Status == s {
			n++
		}
	}
	return n
}

// suspect is a finding that has to be looked at again, with where it was found.
type suspect struct {
	Finding
	page page
}

// state is what is known of a check while the doctor runs.
type state struct {
	Result
	suspects []suspect
	failed   error // it is not asked any more
}

// doctor is one run.
type doctor struct {
	Options
	at        time.Time
	states    []*state // by name, in the order of the report
	byName    map[string]*state
	looked    int
	confirmed bool // what looked wrong was looked at again
	databases []*database
}

// Run looks at everything, and again at what looks wrong, and reports. The error says why it could not begin, or that
// a database was lost on the way. When ctx ends, the report has what was found so far, marked as unfinished.
func Run(ctx context.Context, o Options) (*Report, error) {
	d := &doctor{Options: o.withDefaults(), byName: map[string]*state{}}
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	err := d.look(ctx)
	if err == nil {
		err = d.lookAgain(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return d.report(ctx.Err() != nil), nil
}

// sqlTables tells the time, and which tables are missing.
const sqlTables = `
SELECT clock_timestamp(), coalesce(array_agg(name) FILTER (WHERE to_regclass(name) IS NULL), '{}')
  FROM unnest(ARRAY['transactions', 'operations', 'submissions', 'attempts', 'requests', 'definitions', 'incidents', 'outbox', 'dead_letters']) AS name`

func (d *doctor) prepare(ctx context.Context) error {
	var missing []string
	if err := d.Coordinator.QueryRow(ctx, sqlTables).Scan(&d.at, &missing); err != nil {
		return fmt.Errorf("doctor: ask the coordinator's database: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("doctor: the coordinator's database has no table %s; is it the right one, and has it been migrated?", strings.Join(missing, ", "))
	}
	d.at = d.at.UTC()
	if err := d.openBarriers(ctx); err != nil {
		return err
	}
	for _, c := range checks {
		d.add(c.name, c.rule, c.what)
	}
	for _, c := range participantChecks {
		s := d.add(c.name, c.rule, c.what)
		if len(d.databases) == 0 {
			s.Status, s.Note = StatusSkipped, "no participant was given"
		}
	}
	return nil
}

func (d *doctor) add(name, rule, what string) *state {
	s := &state{Result: Result{Name: name, Rule: rule, What: what, Findings: []Finding{}}}
	d.states = append(d.states, s)
	d.byName[name] = s
	return s
}

// look goes through everything once.
func (d *doctor) look(ctx context.Context) error {
	for p, err := range d.transactionPages(ctx) {
		if err != nil {
			return err
		}
		if err := d.lookAt(ctx, p, nil); err != nil {
			return err
		}
		d.Progress(d.looked, p.percent)
	}
	for p, err := range d.requestPages(ctx) {
		if err != nil {
			return err
		}
		if err := d.ask(ctx, p, nil); err != nil {
			return err
		}
	}
	if err := d.ask(ctx, page{over: overNothing}, nil); err != nil {
		return err
	}
	return d.lookAtBanks(ctx)
}

// lookAt looks at a page of transactions: at the barriers first, see the package documentation.
func (d *doctor) lookAt(ctx context.Context, p page, only map[string]bool) error {
	rows, err := d.readBarriers(ctx, p, only)
	if err != nil {
		return err
	}
	if err := d.ask(ctx, p, only); err != nil {
		return err
	}
	return d.compare(ctx, p, rows, only)
}

// lookAgain looks again at what looked wrong, where it did, and keeps what still does.
func (d *doctor) lookAgain(ctx context.Context) error {
	former := map[string][]suspect{}
	pages := map[string]page{}
	suspected := map[string]map[string]bool{} // by page, the checks that found something there
	for _, s := range d.states {
		if len(s.suspects) == 0 {
			continue
		}
		former[s.Name] = s.suspects
		for _, found := range s.suspects {
			key := found.page.key()
			pages[key] = found.page
			if suspected[key] == nil {
				suspected[key] = map[string]bool{}
			}
			suspected[key][s.Name] = true
		}
		s.suspects = nil
	}
	if len(pages) == 0 {
		d.confirmed = true
		return nil
	}
	if err := pause(ctx, d.RecheckAfter); err != nil {
		return d.keep(former, err)
	}
	for key, p := range pages {
		var err error
		switch p.over {
		case overTransactions:
			err = d.lookAt(ctx, p, suspected[key])
		case overBanks:
			err = d.lookAtBanks(ctx)
		case overRequests, overNothing:
			err = d.ask(ctx, p, suspected[key])
		}
		if err != nil {
			return d.keep(former, err)
		}
	}
	for name, list := range former {
		d.byName[name].confirm(list)
	}
	d.confirmed = true
	return nil
}

// keep leaves what could not be looked at again as it was.
func (d *doctor) keep(former map[string][]suspect, err error) error {
	for name, list := range former {
		d.byName[name].suspects = list
	}
	return err
}

// confirm keeps, of what was found now, what was found before.
func (s *state) confirm(former []suspect) {
	before := map[string]bool{}
	for _, f := range former {
		before[f.Object] = true
	}
	var still []suspect
	for _, f := range s.suspects {
		if before[f.Object] {
			still = append(still, f)
		}
	}
	s.suspects = still
}

func (d *doctor) report(interrupted bool) *Report {
	r := &Report{At: d.at, Since: d.Since, Transactions: d.looked, Participants: []string{}}
	for _, db := range d.databases {
		r.Participants = append(r.Participants, db.names...)
	}
	slices.Sort(r.Participants)
	for _, s := range d.states {
		for _, f := range s.suspects {
			s.Findings = append(s.Findings, f.Finding)
		}
		switch {
		case len(s.Findings) > 0:
			s.Status = StatusProblems
			s.More = len(s.Findings) >= d.FindingsMax
			switch {
			case s.failed != nil:
				s.Note = "not asked of everything: " + s.failed.Error()
			case !d.confirmed:
				s.Note = "not looked at again: a message under way may look like this"
			}
		case s.failed != nil:
			s.Status, s.Note = StatusUnfinished, s.failed.Error()
		case s.Status == StatusSkipped:
		case interrupted:
			s.Status, s.Note = StatusUnfinished, "interrupted"
		default:
			s.Status = StatusOK
		}
		r.Checks = append(r.Checks, s.Result)
	}
	return r
}

// room is how many more findings of the check are taken.
func (d *doctor) room(s *state) int {
	if s.failed != nil || s.Status == StatusSkipped {
		return 0
	}
	return max(0, d.FindingsMax-len(s.suspects))
}

func pause(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idAt returns the smallest transaction id of an instant.
func idAt(t time.Time) (id saga.ID) {
	if t.IsZero() {
		return id
	}
	ms := t.UnixMilli()
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	return id
}
