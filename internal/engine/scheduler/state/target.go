package state

// target is what is recommended for a task: where the next transition is to take it.
type target uint8

const (
	none target = iota
	// toUnneeded releases the task if, when its turn comes, nobody needs it, and forgets it if nobody refers
	// to it either.
	toUnneeded
	toProcessing
	toWaiting
	toReleased
	toErred
	toForgotten
)
