package saga_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

type items map[saga.JobItemState]int

func TestJobStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state  saga.JobState
		canary int
		passed bool
		counts saga.JobCounts
		want   saga.JobAction
		limit  int
	}{
		"asks first":                  {saga.JobPlanning, 0, false, saga.JobCounts{Unasked: 3, Unknown: 5}, saga.JobAsk, 0},
		"waits for answers":           {saga.JobPlanning, 0, false, saga.JobCounts{Unknown: 5, Unanswered: 1, LastAsked: predictNow}, saga.JobWait, 0},
		"silence is not waited for":   {saga.JobPlanning, 0, false, saga.JobCounts{Unknown: 5, Unanswered: 1, LastAsked: predictNow.Add(-saga.JobAnswerWait)}, saga.JobPredict, 0},
		"all have answered":           {saga.JobPlanning, 0, false, saga.JobCounts{Unknown: 5, LastAsked: predictNow}, saga.JobPredict, 0},
		"a plan":                      {saga.JobPlanning, 0, false, saga.JobCounts{}, saga.JobPlan, 0},
		"waits for a person":          {saga.JobPlanned, 0, false, saga.JobCounts{Items: items{saga.JobItemPending: 9}}, saga.JobWait, 0},
		"paused":                      {saga.JobPaused, 0, false, saga.JobCounts{Items: items{saga.JobItemPending: 9}}, saga.JobWait, 0},
		"aborted":                     {saga.JobAborted, 0, false, saga.JobCounts{Items: items{saga.JobItemPending: 9}}, saga.JobWait, 0},
		"the canary first":            {saga.JobRunning, 5, false, saga.JobCounts{Items: items{saga.JobItemPending: 9}, Canary: items{saga.JobItemPending: 5}}, saga.JobDispatch, 5},
		"waits for the canary":        {saga.JobRunning, 5, false, saga.JobCounts{Items: items{saga.JobItemPending: 4, saga.JobItemDispatched: 1, saga.JobItemVerified: 4}, Canary: items{saga.JobItemDispatched: 1, saga.JobItemVerified: 4}}, saga.JobWait, 0},
		"the canary is well":          {saga.JobRunning, 5, false, saga.JobCounts{Items: items{saga.JobItemPending: 4, saga.JobItemVerified: 5}, Canary: items{saga.JobItemVerified: 5}}, saga.JobDispatch, 4},
		"the canary failed":           {saga.JobRunning, 5, false, saga.JobCounts{Items: items{saga.JobItemPending: 4}, Canary: items{saga.JobItemVerified: 4, saga.JobItemFailedAgain: 1}}, saga.JobHalt, 0},
		"failed, the rest is awaited": {saga.JobRunning, 5, false, saga.JobCounts{Items: items{saga.JobItemPending: 4}, Canary: items{saga.JobItemDispatched: 4, saga.JobItemFailedAgain: 1}}, saga.JobWait, 0},
		"somebody has looked at it":   {saga.JobRunning, 5, true, saga.JobCounts{Items: items{saga.JobItemPending: 4}, Canary: items{saga.JobItemFailedAgain: 5}}, saga.JobDispatch, 4},
		"no room":                     {saga.JobRunning, 0, false, saga.JobCounts{Items: items{saga.JobItemPending: 4, saga.JobItemDispatched: saga.JobInFlightMax}}, saga.JobWait, 0},
		"the last replies":            {saga.JobRunning, 0, false, saga.JobCounts{Items: items{saga.JobItemDispatched: 1}}, saga.JobWait, 0},
		"the end":                     {saga.JobRunning, 5, false, saga.JobCounts{Items: items{saga.JobItemVerified: 2, saga.JobItemSkipped: 2}, Canary: items{saga.JobItemVerified: 2}}, saga.JobFinish, 0},
	} {
		action, limit, why := saga.JobStep(c.state, c.canary, c.passed, c.counts, predictNow)
		if action != c.want || limit != c.limit || (why != "") != (action == saga.JobHalt) {
			t.Errorf("%s: %s %d %q, want %s %d", name, action, limit, why, c.want, c.limit)
		}
	}
}

// However often somebody looks, no more than the rate goes, and nothing comes in a burst after a rest.
func TestJobSlots(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{1, 7, 50, 1000} {
		next, total := predictNow.Add(-time.Hour), 0
		const seconds = 10
		for now := predictNow; now.Before(predictNow.Add(seconds * time.Second)); now = now.Add(37 * time.Millisecond) {
			var n int
			n, next = saga.JobSlots(next, now, rate, 1<<20)
			total += n
		}
		if most, least := rate*seconds+rate/5+2, rate*seconds-rate/5-2; total > most || total < least {
			t.Errorf("at %d per second %d went in %d seconds", rate, total, seconds)
		}
	}
	if n, _ := saga.JobSlots(predictNow, predictNow, 50, 0); n != 0 {
		t.Errorf("%d slots for nothing", n)
	}
}

func TestJobItemOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  saga.DeadLetterStatus
		version int64
		want    saga.JobItemState
		code    string
	}{
		{saga.DeadLetterReplaying, 4, saga.JobItemDispatched, ""},
		{saga.DeadLetterClosed, 5, saga.JobItemVerified, ""},
		{saga.DeadLetterOpen, 5, saga.JobItemFailedAgain, "open"},
		{saga.DeadLetterReplaying, 6, saga.JobItemFailedAgain, "replaying"},
		{saga.DeadLetterObsolete, 5, saga.JobItemSkipped, "obsolete"},
		{saga.DeadLetterDiscarded, 6, saga.JobItemSkipped, "discarded"},
	} {
		if state, code := saga.JobItemOutcome(3, c.status, c.version); state != c.want || code != c.code {
			t.Errorf("%s at version %d: %s %q", c.status, c.version, state, code)
		}
	}
}

// Every command in every state: who was not the first, or has another plan, changes nothing.
func TestJudgeJob(t *testing.T) {
	t.Parallel()
	allowed := map[saga.JobState]map[saga.JobCommand]saga.JobState{
		saga.JobPlanning: {saga.JobCommandAbort: saga.JobAborted},
		saga.JobPlanned:  {saga.JobCommandStart: saga.JobRunning, saga.JobCommandAbort: saga.JobAborted},
		saga.JobRunning:  {saga.JobCommandPause: saga.JobPaused, saga.JobCommandAbort: saga.JobAborted},
		saga.JobPaused:   {saga.JobCommandResume: saga.JobRunning, saga.JobCommandAbort: saga.JobAborted},
		saga.JobFinished: {}, saga.JobAborted: {},
	}
	for state, commands := range allowed {
		for _, command := range []saga.JobCommand{saga.JobCommandStart, saga.JobCommandPause, saga.JobCommandResume, saga.JobCommandAbort} {
			got, err := saga.JudgeJob(state, 3, command, 3, true)
			var refused *saga.StateError
			if want, ok := commands[command]; ok && (err != nil || got != want) || !ok && (!errors.As(err, &refused) || refused.Code != saga.CodeJobState || got != state) {
				t.Errorf("%s of a %s job: %s, %v", command, state, got, err)
			}
			if _, err := saga.JudgeJob(state, 3, command, 2, true); !errors.Is(err, saga.ErrStale) {
				t.Errorf("%s of a %s job, seen at an old version: %v", command, state, err)
			}
		}
	}
	if _, err := saga.JudgeJob(saga.JobPlanned, 3, saga.JobCommandStart, 3, false); !errors.Is(err, saga.ErrPlanChanged) {
		t.Errorf("started by another plan: %v", err)
	}
}
