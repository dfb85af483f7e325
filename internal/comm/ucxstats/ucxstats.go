// Package ucxstats adds up the counters of the UCX workers of this process, for metrics. Those who create workers
// register them; the package links no UCX.
package ucxstats

import "sync"

// Op counts one kind of operation.
type Op struct{ Count, Bytes uint64 }

// Counters are the counters of UCX workers, see ucx.WorkerStats. All but the last line only increase.
type Counters struct {
	// Ops are the operations by name, such as "tag send".
	Ops map[string]Op
	// Errors is the number of failed operations, EndpointErrors that of failed endpoints.
	Errors, EndpointErrors uint64
	// Messages counts active messages that arrived, MessagesDropped those that were refused.
	Messages, MessageBytes, MessagesDropped uint64
	// Progress is the number of turns of the progress loop. SpinsWon are waits that ended while spinning, SpinsLost
	// those that went to sleep, Parks goroutines that slept for a completion.
	Progress, SpinsWon, SpinsLost, Parks uint64
	// InFlight is the number of operations that are not finished, Endpoints and Workers those that are open.
	InFlight, Endpoints, Workers int64
}

var workers struct {
	sync.Mutex
	open   map[any]func() Counters
	closed Counters // sum of the workers that were removed
}

// Add registers a worker under a key. read returns its counters; any goroutine may call it until Remove has returned.
func Add(key any, read func() Counters) {
	workers.Lock()
	defer workers.Unlock()
	if workers.open == nil {
		workers.open = map[any]func() Counters{}
	}
	workers.open[key] = read
}

// Remove removes a worker before it is closed. Its counters remain part of Total. Other keys are ignored.
func Remove(key any) {
	workers.Lock()
	defer workers.Unlock()
	if read := workers.open[key]; read != nil {
		delete(workers.open, key)
		last := read()
		last.InFlight, last.Endpoints, last.Workers = 0, 0, 0
		workers.closed.add(last)
	}
}

// Total returns the sums of all workers since the start of the process.
func Total() Counters {
	workers.Lock()
	defer workers.Unlock()
	sum := Counters{}
	sum.add(workers.closed)
	for _, read := range workers.open {
		sum.add(read())
		sum.Workers++
	}
	return sum
}

func (c *Counters) add(o Counters) {
	if c.Ops == nil {
		c.Ops = map[string]Op{}
	}
	for name, n := range o.Ops {
		c.Ops[name] = Op{c.Ops[name].Count + n.Count, c.Ops[name].Bytes + n.Bytes}
	}
	c.Errors += o.Errors
	c.EndpointErrors += o.EndpointErrors
	c.Messages += o.Messages
	c.MessageBytes += o.MessageBytes
	c.MessagesDropped += o.MessagesDropped
	c.Progress += o.Progress
	c.SpinsWon += o.SpinsWon
	c.SpinsLost += o.SpinsLost
	c.Parks += o.Parks
	c.InFlight += o.InFlight
	c.Endpoints += o.Endpoints
	c.Workers += o.Workers
}
