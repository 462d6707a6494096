package pgfault

import "github.com/sagacity-tx/sagacity/internal/fault"

const (
	codeInsufficientPrivilege = "42501"
	codeFeatureNotSupported   = "0A000"
)

// SQLState returns the cause of an ERROR with that SQLSTATE. A class that is not PostgreSQL's belongs to a function
// of somebody, which refuses. What is no SQLSTATE is Unrecognised.
func SQLState(code string) fault.Cause {
	if len(code) != 5 {
		return fault.Unrecognised
	}
	if cause, ok := codes[code]; ok {
		return cause
	}
	if cause, ok := classes[code[:2]]; ok {
		return cause
	}
	return fault.Rejected
}

// classes are the classes of SQLSTATEs (PostgreSQL, appendix A).
var classes = map[string]fault.Cause{
	"00": fault.Rejected, // success, warnings and no data: as an ERROR they are a function's way to refuse
	"01": fault.Rejected,
	"02": fault.Rejected,
	"03": fault.Rejected,
	"08": fault.Lost, // the connection; poolers report all of their own trouble as 08P01
	"09": fault.Rejected,
	"0A": fault.Rejected,
	"0B": fault.Rejected,
	"0F": fault.Rejected,
	"0L": fault.Rejected,
	"0P": fault.Rejected,
	"0Z": fault.Rejected,
	"10": fault.Rejected,
	"20": fault.Rejected,
	"21": fault.Rejected,
	"22": fault.Rejected, // data
	"23": fault.Rejected, // constraints
	"24": fault.Rejected,
	"25": fault.Aborted, // the state of the transaction, which is the session's and not the statement's
	"26": fault.Aborted, // a prepared statement is gone; a new session has it again
	"27": fault.Rejected,
	"28": fault.Setup, // who we are
	"2B": fault.Rejected,
	"2D": fault.Rejected,
	"2F": fault.Rejected,
	"34": fault.Rejected,
	"38": fault.Rejected,
	"39": fault.Rejected,
	"3B": fault.Rejected,
	"3D": fault.Setup, // no such database
	"3F": fault.Rejected,
	"40": fault.Aborted,
	"42": fault.Rejected, // syntax, names and privileges
	"44": fault.Rejected,
	"53": fault.Exhausted,
	"54": fault.Rejected, // limits that are built in
	"55": fault.Aborted,
	"57": fault.Aborted,
	"58": fault.Unavailable, // the disk and the system of the server
	"72": fault.Aborted,     // a snapshot that is too old; a new one is not
	"F0": fault.Setup,
	"HV": fault.Rejected,
	"P0": fault.Rejected, // what functions raise
	"XX": fault.Rejected,
}

// codes are the SQLSTATEs that are not as the others of their class.
var codes = map[string]fault.Cause{
	"25006": fault.Unavailable, // a server that only reads: a standby, before or after a switch
	"25P03": fault.Lost,        // idle in a transaction: FATAL
	"25P04": fault.Lost,        // transaction_timeout: FATAL
	"40001": fault.Busy,        // serialization failure
	"40P01": fault.Busy,        // deadlock
	"40002": fault.Rejected,    // a constraint, checked at the commit
	"40003": fault.Lost,        // "statement completion unknown"
	"55006": fault.Busy,        // an object in use
	"55P02": fault.Rejected,    // a setting that cannot be changed
	"55P03": fault.Busy,        // lock_timeout, NOWAIT
	"57P01": fault.Lost,        // an administrator stops the server or the session
	"57P02": fault.Lost,        // another session crashed
	"57P03": fault.Lost,        // the server starts or stops; said to a session, it may have worked before
	"57P04": fault.Lost,        // the database was dropped
	"57P05": fault.Lost,        // idle_session_timeout
	"HV001": fault.Aborted,     // a foreign server lacks memory
	"HV00L": fault.Aborted,     // a foreign server could not begin
	"HV00M": fault.Aborted,
	"HV00N": fault.Aborted, // a foreign server was not reached
}

// routine is a place in PostgreSQL that reports something else than its SQLSTATE says of others.
type routine struct{ code, name string }

var routines = map[routine]fault.Cause{
	// "cached plan must not change result type": a migration came between, and pgx prepares it again.
	{codeFeatureNotSupported, "RevalidateCachedQuery"}: fault.Aborted,
	// "not accepting commands to avoid wraparound": until a VACUUM is done.
	{"54000", "GetNewTransactionId"}: fault.Exhausted,
	{"54000", "GetNewMultiXactId"}:   fault.Exhausted,
}
