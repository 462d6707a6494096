package saga

import (
	"errors"
	"fmt"
	"time"
)

// JobState is where a bulk replay stands (D5).
type JobState string

// The states of jobs. The last two are terminal.
const (
	JobPlanning JobState = "planning" // the dry run: participants are asked, nothing is replayed
	JobPlanned  JobState = "planned"  // the dry run is over: a person looks at the plan, and starts it
	JobRunning  JobState = "running"
	JobPaused   JobState = "paused" // by an operator, or by itself because an item of the canary failed again
	JobFinished JobState = "finished"
	JobAborted  JobState = "aborted"
)

// Terminal reports whether nothing can change any more.
func (s JobState) Terminal() bool { return s == JobFinished || s == JobAborted }

// Active reports whether the coordinators work on it.
func (s JobState) Active() bool { return s == JobPlanning || s == JobRunning }

// JobItemState is where one dead letter of a job stands.
type JobItemState string

// The states of items. Pending and dispatched ones are open.
const (
	JobItemPending     JobItemState = "pending"
	JobItemDispatched  JobItemState = "dispatched"   // it was replayed; its definitive reply is awaited
	JobItemVerified    JobItemState = "verified"     // the definitive reply has come
	JobItemFailedAgain JobItemState = "failed_again" // it is an open dead letter again
	JobItemRefused     JobItemState = "refused"      // the replay was refused, with a code
	JobItemSkipped     JobItemState = "skipped"      // there was nothing to replay, or no sense in it, with a code
)

// JobItemStates lists all states of items, in the order in which counts of them are shown.
func JobItemStates() []JobItemState {
	return []JobItemState{JobItemPending, JobItemDispatched, JobItemVerified, JobItemFailedAgain, JobItemRefused, JobItemSkipped}
}

// Limits of jobs.
const (
	JobItemsMax    = 20_000 // dead letters of one job
	JobRateMax     = 1000   // replays per second
	JobInFlightMax = 1000   // of one job: replayed, and not settled yet
	JobRateDefault = 50
	JobAskRate     = 500             // inquiries per second of a dry run
	JobAnswerWait  = 5 * time.Second // of a dry run, for the last answers: then silence is unknown
	jobBurst       = 200 * time.Millisecond
	jobSlotsMax    = 100 // items taken at a time
)

// JobCounts is what is known of a job's items.
type JobCounts struct {
	Items      map[JobItemState]int
	Canary     map[JobItemState]int // of the first ones that were not refused or skipped
	Unasked    int                  // of a dry run: not asked about yet
	Unknown    int                  // of a dry run: without a prediction yet
	LastAsked  time.Time            // when the last question was sent
	Unanswered int                  // questions without an answer
}

// JobAction is what has to be done for a job now.
type JobAction string

// The actions of JobStep.
const (
	JobAsk      JobAction = "ask"      // about items that were not asked about, at the rate
	JobPredict  JobAction = "predict"  // what the replays of those would do that have no prediction yet
	JobPlan     JobAction = "plan"     // the dry run is over
	JobDispatch JobAction = "dispatch" // replay pending items, at the rate
	JobWait     JobAction = "wait"     // for replies, or for nothing
	JobHalt     JobAction = "halt"     // pause it, and say why
	JobFinish   JobAction = "finish"
)

// JobStep decides what a job does next. canary is how many items go first, passed whether they have been settled well, or
// an operator has resumed the job after they were not. With JobDispatch it returns how many items may go at most; with
// JobHalt why.
//
// While the canary is not settled nothing else goes; if one of it fails again, the job halts.
func JobStep(state JobState, canary int, passed bool, c JobCounts, now time.Time) (action JobAction, limit int, why string) {
	switch state {
	case JobPlanning:
		return planStep(c, now), 0, ""
	case JobRunning:
	default:
		return JobWait, 0, ""
	}
	room := JobInFlightMax - c.Items[JobItemDispatched]
	if canary > 0 && !passed {
		failed := c.Canary[JobItemFailedAgain]
		switch {
		case failed > 0 && c.Canary[JobItemDispatched] == 0:
			return JobHalt, 0, fmt.Sprintf("of the canary of %d, %d failed again: look at them, then resume or abort", canary, failed)
		case failed > 0:
			return JobWait, 0, "" // for the rest of what was sent
		case c.Canary[JobItemPending] > 0:
			return JobDispatch, min(room, c.Canary[JobItemPending]), ""
		case c.Canary[JobItemDispatched] > 0:
			return JobWait, 0, ""
		}
	}
	switch {
	case c.Items[JobItemPending] > 0 && room > 0:
		return JobDispatch, min(room, c.Items[JobItemPending]), ""
	case c.Items[JobItemPending]+c.Items[JobItemDispatched] > 0:
		return JobWait, 0, ""
	}
	return JobFinish, 0, ""
}

// planStep decides what a dry run does next.
func planStep(c JobCounts, now time.Time) JobAction {
	switch {
	case c.Unasked > 0:
		return JobAsk
	case c.Unanswered > 0 && now.Before(c.LastAsked.Add(JobAnswerWait)):
		return JobWait
	case c.Unknown > 0:
		return JobPredict
	}
	return JobPlan
}

// JobSlots says how many items may go at an instant, and when the next may: a job that goes n per second gives out a slot
// every nth of a second. What was not used for longer than a moment is lost, so that nothing comes in a burst. next is
// when the next slot is due, by all coordinators together.
func JobSlots(next, now time.Time, perSecond, wanted int) (n int, after time.Time) {
	interval := time.Second / time.Duration(max(perSecond, 1))
	next = later(next, now.Add(-jobBurst))
	if next.After(now) || wanted <= 0 {
		return 0, next
	}
	n = min(1+int(now.Sub(next)/interval), wanted, jobSlotsMax)
	return n, next.Add(time.Duration(n) * interval)
}

// JobItemOutcome says what has become of an item that was dispatched at a version of its dead letter, by what the dead
// letter is now. The replay itself has raised the version by one; each further change by one more.
func JobItemOutcome(dispatched int64, status DeadLetterStatus, version int64) (state JobItemState, code string) {
	switch {
	case version <= dispatched+1:
		return JobItemDispatched, ""
	case status == DeadLetterClosed: // a definitive reply has come, if need be a late one
		return JobItemVerified, ""
	case status == DeadLetterOpen || status == DeadLetterReplaying: // opened again, whatever was done about it since then
		return JobItemFailedAgain, string(status)
	}
	return JobItemSkipped, string(status)
}

// JobItemPlanned says whether an item of a dry run will be replayed, by what that would do and what its dead letter is now.
// What is no longer open as it was selected, and what would only conflict again, is skipped, with a code; all else is for
// the replay itself to decide.
func JobItemPlanned(effect ReplayEffect, asSelected bool) (state JobItemState, code string) {
	switch {
	case !asSelected, effect == ReplayConflict, effect == ReplayObsolete, effect == ReplayNotOpen:
		return JobItemSkipped, string(effect)
	}
	return JobItemPending, ""
}

// ErrPlanChanged says that a job was to be started by another plan than its own.
var ErrPlanChanged = errors.New("the plan is another one")

// CodeJobState is the code of a *StateError of a job whose state does not allow what was asked.
const CodeJobState = "job_state"

// JobCommand is what an operator asks of a job.
type JobCommand string

// The commands.
const (
	JobCommandStart  JobCommand = "start"
	JobCommandPause  JobCommand = "pause"
	JobCommandResume JobCommand = "resume"
	JobCommandAbort  JobCommand = "abort"
)

// JudgeJob returns the state that a job has after a command. seen is the version that the operator looked at.
//
// Errors: ErrStale; ErrPlanChanged; *StateError with the code job_state.
func JudgeJob(state JobState, version int64, command JobCommand, seen int64, planMatches bool) (JobState, error) {
	if seen != version {
		return state, fmt.Errorf("%w: version %d is now %d", ErrStale, seen, version)
	}
	switch {
	case command == JobCommandStart && state == JobPlanned && !planMatches:
		return state, ErrPlanChanged
	case command == JobCommandStart && state == JobPlanned,
		command == JobCommandResume && state == JobPaused:
		return JobRunning, nil
	case command == JobCommandPause && state == JobRunning:
		return JobPaused, nil
	case command == JobCommandAbort && !state.Terminal():
		return JobAborted, nil
	}
	return state, &StateError{Code: CodeJobState, Event: string(command), Problem: "the job is " + string(state)}
}
