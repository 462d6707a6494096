package saga

// RunAs is how a participant runs the user code of a command that may have ended its process before.
type RunAs string

// How a suspect is run.
const (
	RunBeside RunAs = "beside" // like any other command
	RunAlone  RunAs = "alone"  // while nothing else runs in the process, so that nobody beside it is blamed
	RunNever  RunAs = "never"  // it kills its participant: answer the fault poison, a person has to look (S3)
)

// deliveriesAlone is how many of the deliveries of a suspect, the last ones, run alone.
const deliveriesAlone = 2

// BesideMax is how often a suspect is run beside others if it may be begun begunMax times.
func BesideMax(begunMax int) int { return max(0, begunMax-deliveriesAlone) }

// Suspect decides about a command whose user code was begun that often and never ended, this time included, and may
// be begun begunMax times. An operation's first delivery is no suspect and is not counted.
//
//	begun up to begunMax − 2   run beside others
//	begun up to begunMax       run alone
//	begun more often           never run: poison
//
// Whoever ran beside a killer is counted too, but has two chances alone: it uses the first one.
func Suspect(begun, begunMax int) RunAs {
	switch {
	case begun > begunMax:
		return RunNever
	case begun > BesideMax(begunMax):
		return RunAlone
	}
	return RunBeside
}
