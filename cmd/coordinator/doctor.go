package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/internal/doctor"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// doctorFlags are those of doctor.
type doctorFlags struct {
	dsn          string
	participants []string
	urlsFile     string
	since        string
	format       string

	dev map[string]string // the addresses of a running dev, if nothing else was given
}

func newDoctor() *cobra.Command {
	f := doctorFlags{format: formatTable}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look whether the databases are as the rules say", Args: cobra.NoArgs,
		Long: "doctor looks whether the coordinator's database, and with --participant those of participants, are as the rules\n" +
			"say they must be. It only reads, and may run while coordinators and participants work: what looks wrong is looked\n" +
			"at again before it is reported. It ends with 0 if nothing is wrong, 1 if something is, and 5 if nothing is but not\n" +
			"everything could be looked at.\n\n" +
			"Where no database is given it looks at those of a running \"coordinator dev\".\n\n" +
			"The database of participant bank-a comes from SAGACITY_PARTICIPANT_BANK_A_URL, or from a line bank-a=URL of the file\n" +
			"that --participant-urls names.",
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd, &f) },
	}
	cmd.Flags().StringVar(&f.dsn, "database-url", "", "PostgreSQL of the coordinator (COORDINATOR_DATABASE_URL or DATABASE_URL)")
	cmd.Flags().StringArrayVar(&f.participants, "participant", nil, "look at the barrier of the participant with this name too; may be given again")
	cmd.Flags().StringVar(&f.urlsFile, "participant-urls", "", "file with a line NAME=URL for each participant; all of them are looked at")
	addSince(cmd, &f.since, "only transactions that began")
	cmd.Flags().VarP(choice{&f.format, []string{formatTable, formatJSON, formatYAML}}, "output", "o", "how to print data: table, json, yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatTable, formatJSON, formatYAML}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

func runDoctor(cmd *cobra.Command, f *doctorFlags) error {
	coordinatorDatabase(&f.dsn)
	if f.dsn == "" {
		f.findDev(cmd)
	}
	if f.dsn == "" {
		return usageError("no database; give --database-url, set COORDINATOR_DATABASE_URL or DATABASE_URL, or start \"coordinator dev\"")
	}
	since, err := sinceOf(f.since)
	if err != nil {
		return err
	}
	urls, err := f.participantURLs()
	if err != nil {
		return err
	}
	var pools doctorPools
	defer pools.close()
	o := doctor.Options{Participants: map[string]*pgxpool.Pool{}, Since: since}
	if o.Coordinator, err = pools.open(cmd.Context(), f.dsn); err != nil {
		return fmt.Errorf("open the coordinator's database: %w; check --database-url (DATABASE_URL)", err)
	}
	for name, url := range urls {
		if o.Participants[name], err = pools.open(cmd.Context(), url); err != nil {
			return fmt.Errorf("open the database of participant %s: %w; check %s", name, err, envParticipant(name))
		}
	}
	progress, end := doctorProgress(cmd.ErrOrStderr())
	o.Progress = progress
	report, err := doctor.Run(cmd.Context(), o)
	end()
	if err != nil {
		return err
	}
	if err := newOutput(cmd, f.format).data(report, func(t *table) { reportRows(t, report) }); err != nil {
		return err
	}
	return diagnosis(report)
}

// findDev takes the databases of a running dev.
func (f *doctorFlags) findDev(cmd *cobra.Command) {
	path, values := devAddresses()
	if f.dsn = values[envCoordinatorDatabase]; f.dsn == "" {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: looking at the databases of \"coordinator dev\" (%s)\n", printable(path))
	f.dev = values
	if len(f.participants) == 0 && f.urlsFile == "" {
		f.participants = devBanks
	}
}

// diagnosis turns a report into the end of the command.
func diagnosis(r *doctor.Report) error {
	switch {
	case r.Problems() > 0:
		return fmt.Errorf("%d of %d checks found something that must not be, in %d transactions", r.Problems(), len(r.Checks), r.Transactions)
	case r.Unfinished() > 0:
		return withExit(exitPartial, fmt.Errorf("nothing wrong was found, but %d of %d checks have not looked at everything", r.Unfinished(), len(r.Checks)))
	}
	return nil
}

func reportRows(t *table, r *doctor.Report) {
	t.head("CHECK", "RULE", "RESULT", "FOUND", "WHAT HAS TO BE SO")
	for i := range r.Checks {
		c := &r.Checks[i]
		found := number(len(c.Findings))
		if c.More {
			found += " or more"
		}
		t.row(c.Name, c.Rule, string(c.Status), found, c.What+optional(" — ", c.Note))
	}
	const examples = 10
	if r.Problems() == 0 {
		return
	}
	t.head("CHECK", "OBJECT", "WHAT IS")
	for i := range r.Checks {
		c := &r.Checks[i]
		for n, f := range c.Findings {
			if n == examples {
				t.row(c.Name, "…", strconv.Itoa(len(c.Findings)-examples)+" more; see -o json")
				break
			}
			t.row(c.Name, f.Object, f.Detail)
		}
	}
}

// envParticipant names the environment variable that holds the database of a participant.
func envParticipant(name string) string {
	return "SAGACITY_PARTICIPANT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_URL"
}

// participantURLs returns where the databases of participants are, by name. Addresses hold passwords, so they are no
// arguments.
func (f *doctorFlags) participantURLs() (map[string]string, error) {
	urls, err := f.readURLs()
	if err != nil {
		return nil, err
	}
	for _, name := range f.participants {
		if err := saga.CheckName("participant", name); err != nil {
			return nil, usageError("--participant: %w", err)
		}
		if urls[name] != "" {
			continue
		}
		if urls[name] = cmp.Or(os.Getenv(envParticipant(name)), f.dev[envParticipant(name)]); urls[name] == "" {
			return nil, usageError("no database of participant %s; set %s, or give it in the file of --participant-urls", name, envParticipant(name))
		}
	}
	return urls, nil
}

func (f *doctorFlags) readURLs() (map[string]string, error) {
	urls := map[string]string{}
	if f.urlsFile == "" {
		return urls, nil
	}
	file, err := os.Open(f.urlsFile)
	if err != nil {
		return nil, usageError("read the addresses of participants: %w; check --participant-urls", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, url, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || saga.CheckName("participant", name) != nil {
			return nil, usageError("line %d of %s is not NAME=URL", n, f.urlsFile) // it may hold a password
		}
		urls[name] = strings.TrimSpace(url)
	}
	if err := lines.Err(); err != nil {
		return nil, usageError("read the addresses of participants: %w; check --participant-urls", err)
	}
	return urls, nil
}

// doctorPools are the databases that are open, each once.
type doctorPools struct{ byDSN map[string]*pgxpool.Pool }

func (p *doctorPools) open(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	if pool := p.byDSN[dsn]; pool != nil {
		return pool, nil
	}
	const connections = 2
	pool, err := pg.Open(ctx, pg.Config{DSN: dsn, MaxConns: connections, ApplicationName: "sagacity doctor"})
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil, errors.New("interrupted")
		}
		return nil, err
	}
	if p.byDSN == nil {
		p.byDSN = map[string]*pgxpool.Pool{}
	}
	p.byDSN[dsn] = pool
	return pool, nil
}

func (p *doctorPools) close() {
	for _, pool := range p.byDSN {
		pool.Close()
	}
}

// doctorProgress shows how far the doctor is, on a terminal only. end takes it away.
func doctorProgress(w io.Writer) (progress func(transactions, percent int), end func()) {
	if !isTerminal(w) {
		return nil, func() {}
	}
	const toStartOfLine = "\r\x1b[K"
	progress = func(transactions, percent int) {
		fmt.Fprintf(w, "%scoordinator: looked at %d transactions (%d%%)", toStartOfLine, transactions, percent)
	}
	return progress, func() { fmt.Fprint(w, toStartOfLine) }
}
