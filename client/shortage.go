package client

import "go.millstream.dev/internal/task"

// Shortage is a set of tasks that the scheduler cannot start because no worker can run them. The scheduler reports it
// after a few seconds (scheduler.Config.UnrunnableAfter), and repeats the report until the tasks can run.
type Shortage struct {
	// Reason is one of no-workers, functions, build, ability, workers, resources, restrictions and paused.
	Reason string
	// Text describes in one sentence what is missing and what to do.
	Text string
	// Tasks is the number of waiting tasks of all clients.
	Tasks int
	// Keys are futures of this client that wait for the tasks; More reports whether there are others.
	Keys []task.Key
	More bool
}

// Shortages returns why tasks of this client cannot run at present; nil if all can, and always with Dask's scheduler,
// which does not report it.
func (c *Client) Shortages() []Shortage {
	var out []Shortage
	for _, s := range c.tracker.Shortages() {
		out = append(out, Shortage(s))
	}
	return out
}
