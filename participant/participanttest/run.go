package participanttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// silencesMax is after how many checks without an answer the participant is not asked any more.
const silencesMax = 3

// Run tests a participant: each check is a subtest, named action/check, that fails with what is to be known about
// what is wrong. A check that lacks something fails, too, and says what to give, unless Config.LeaveOut names it. The test
// fails at once if the suite cannot be carried out.
func Run(t *testing.T, c Config) {
	t.Helper()
	report, err := Torture(t.Context(), c)
	for _, check := range report.Checks {
		if check.Verdict == LeftOut && slices.Contains(c.LeaveOut, check.Name) {
			continue
		}
		t.Run(check.Action+"/"+check.Name, func(t *testing.T) {
			switch check.Verdict {
			case Wrong:
				t.Errorf("%s breaks %s\n%s", check.Name, check.Rules, check.Text())
			case LeftOut:
				t.Errorf("%s was not carried out: %s, or name it in Config.LeaveOut", check.Name, check.Reason)
			default:
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d checks, %d left out, seed %d", len(report.Checks)-report.Count(LeftOut), report.Count(LeftOut), report.Seed)
}

// Torture tests a participant that runs anywhere, in any language. An error says that the suite could not be carried
// out, or not to its end: the configuration is not valid, NATS cannot be reached, a coordinator runs on the same
// prefix, the participant does not answer at all, or one of the caller's functions has failed. What a participant
// does wrong is no error but in the report.
func Torture(ctx context.Context, c Config) (report Report, err error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return report, err
	}
	k, err := newConductor(ctx, c)
	if err != nil {
		return report, fmt.Errorf("participanttest: %w", err)
	}
	defer func() {
		if closed := k.close(ctx); closed != nil {
			err = errors.Join(err, fmt.Errorf("participanttest: %w", closed))
		}
	}()
	report = Report{Participant: c.Participant, Seed: c.Seed}
	if report.Seed == 0 {
		report.Seed = rand.Uint64()
	}
	s := suite{k: k, report: &report}
	for i := range c.Actions {
		if err := s.action(ctx, &c.Actions[i]); err != nil {
			return report, fmt.Errorf("participanttest: %w", err)
		}
	}
	return report, nil
}

// suite is one run.
type suite struct {
	k        *conductor
	report   *Report
	silences int
}

func (s *suite) action(ctx context.Context, a *Action) error {
	count := 0
	for _, c := range checks() {
		if c.kinds != nil && !slices.Contains(c.kinds, a.Kind) {
			continue
		}
		t := &trial{ctx: ctx, k: s.k, action: a, count: &count, rnd: rand.New(rand.NewPCG(s.report.Seed, 0))}
		t.left = c.needs.missing(s.k.cfg, a)
		if s.silences >= silencesMax {
			t.left = "the participant does not answer any more"
		}
		if t.left == "" {
			c.run(t)
			t.tidy()
		}
		if t.err != nil {
			return fmt.Errorf("%s/%s: %w", a.Name, c.name, t.err)
		}
		s.report.Checks = append(s.report.Checks, t.result(c))
		if t.silent {
			s.silences++
			if len(s.report.Checks) == 1 {
				return s.notThere()
			}
		}
	}
	return nil
}

func (s *suite) notThere() error {
	c := s.k.cfg
	return fmt.Errorf("participant %s does not answer within %s on the subject %s.cmd.%s: does it run, with this name and prefix, on this NATS server?",
		c.Participant, c.Patience, c.Prefix, c.Participant)
}
