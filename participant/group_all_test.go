package participant_test

import "testing"

// What a participant promises it promises with groups too: newKit turns them on in here.
func TestInGroups(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Outcomes": TestOutcomesOfTries, "ConfirmsAndCancels": TestTCCConfirmsAndCancels, "PhaseTwo": TestPhaseTwoCannotRefuse,
		"HangingTry": TestHangingTryAndNullCancel, "Fence": TestFenceOfAnExecutedPivot, "Conflict": TestConflict, "Reserve": TestReserve,
		"CrashBetweenCommitAndReply": TestCrashBetweenCommitAndReply, "LostBeforeCommit": TestConnectionLostBeforeCommit,
		"LostInHandler": TestConnectionLostInHandler, "Duplicates": TestDuplicatesAndReorderings, "Drain": TestDrainFinishesWhatIsInHand,
		"DrainTimeout": TestDrainTimeout, "OneStep": TestCommandsOfOneStepWaitForEachOther, "Undecodable": TestUndecodable,
		"PublishIsRepeated": TestPublishIsRepeated, "Misuse": TestMisuseOfTheTransaction, "CommitBySQL": TestCommitBySQL,
		"Goroutine": TestGoroutineThatOutlivesItsHandler, "HandlerTimeout": TestHandlerTimeout, "Poison": TestPoison,
		"NoSuspicion": TestNoSuspicionStays,
	} {
		t.Run(name, test)
	}
}
