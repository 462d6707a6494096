package saga

import (
	"bytes"
	"time"
)

// Retention: what may be forgotten, and how far the floors may rise (B7, I-10). A floor is a transaction id; ids
// below it are past retention. Ids order by the time they were made at (S1.2).

// Before reports whether the id was made before the other one.
func (id ID) Before(other ID) bool { return bytes.Compare(id[:], other[:]) < 0 }

// FirstIDAt returns the smallest transaction id of an instant, to the millisecond.
func FirstIDAt(t time.Time) ID {
	var id ID
	ms := max(t.UnixMilli(), 0)
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	id[6], id[8] = 0x70, 0x80
	return id
}

// floorMargin keeps the floor below the ids that clients may still make (S1.2: five minutes before the clock) and
// those that are on their way into the database.
const floorMargin = 10 * time.Minute

// Floor returns the coordinator's floor, which every command carries (B7): the oldest id that is not terminal,
// or, if that is later or there is none (the zero id), the first id that cannot begin any more.
func Floor(oldest ID, now time.Time) ID {
	floor := FirstIDAt(now.Add(-floorMargin))
	if !oldest.IsZero() && oldest.Before(floor) {
		return oldest
	}
	return floor
}

// RaiseFloor returns how far retention may forget (B7): what is below the returned id, and nothing else, may be
// dropped in the local transaction that stores it as the new floor. It is for participants, and for the coordinator's
// own rows.
//
//   - It is never above sagaFloor minus the retention period, so that everything below it has ended at least that
//     long before the newest transaction that a command has told of. The zero sagaFloor raises nothing.
//   - It never passes oldestHeld, the oldest id that must be kept: for a participant the oldest tcc row that is
//     tried, whose confirm or cancel is still to come; for the coordinator the oldest id that MayDrop refuses. The
//     zero id: there is none.
//   - It is never lowered: what was forgotten stays forgotten (I-6).
func RaiseFloor(current, sagaFloor ID, retention time.Duration, oldestHeld ID) ID {
	floor := current
	if !sagaFloor.IsZero() {
		floor = FirstIDAt(sagaFloor.Time().Add(-retention))
	}
	if !oldestHeld.IsZero() && oldestHeld.Before(floor) {
		floor = oldestHeld
	}
	if floor.Before(current) {
		return current
	}
	return floor
}

// Retained is what retention has to know of a stored transaction.
type Retained struct {
	Status      Status
	FinishedAt  time.Time // zero: it has not
	OpenLetters int       // dead letters of its operations that are open or being replayed
}

// MayDrop reports whether the coordinator may forget the transaction (I-10): it has ended, longer ago than the
// retention period, and nothing of it waits for a person. Its request key outlives it as a hash (S1.3).
func MayDrop(t Retained, retention time.Duration, now time.Time) bool {
	return t.Status.Terminal() && !t.FinishedAt.IsZero() && t.OpenLetters == 0 && t.FinishedAt.Before(now.Add(-retention))
}

// Week is how wide the coordinator's partitions are, or a part of it. Weeks are counted from the Unix epoch.
const Week = 7 * 24 * time.Hour

// MayDropWeeks reports whether all ids that were made in some weeks, the first one and those that follow it, are past the
// retention period, so that what has ended of them may be forgotten. Whatever the period is, ids that may still begin
// are not.
func MayDropWeeks(first int64, weeks int, retention time.Duration, now time.Time) bool {
	end := time.UnixMilli((first + int64(weeks)) * Week.Milliseconds())
	return !end.After(now.Add(-max(retention, floorMargin)))
}
