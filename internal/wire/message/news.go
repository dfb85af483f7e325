package message

// Messages of schedulers to clients.

// StreamStart is the first message of a scheduler to a client: the client is registered or rejected.
//
//message:op stream-start
type StreamStart struct {
	Warning string `msg:"warning,lenient"`
	// Error is why the scheduler rejects the client, "" if it does not.
	Error string `msg:"error,lenient"`
	// Millstream is set by Millstream schedulers.
	Millstream SchedulerID `msg:"millstream,omitempty"`
}

// SchedulerID distinguishes a scheduler from its predecessor.
//
//message:part
type SchedulerID struct {
	ID    string `msg:"id"`
	Epoch int64  `msg:"epoch"`
}

// KeyInMemory reports that a result is available.
//
//message:op key-in-memory
type KeyInMemory struct {
	Key Key `msg:"key,required"`
	// Workers are the addresses of some workers that have it; nil if the client is to ask.
	Workers []string `msg:"workers,omitempty,lenient"`
	// Type is the pickle of the result's class, for Python clients.
	Type []byte `msg:"type,omitempty"`
	// Value is a short result, for Millstream clients, which then need not fetch it.
	Value Raw `msg:"value,omitempty"`
}

// KeyErred reports that a task failed.
//
//message:op task-erred to client
type KeyErred struct {
	Key Key `msg:"key,required"`
	// Exception and Traceback are serialized.
	Exception Object `msg:"exception"`
	Traceback Object `msg:"traceback"`
	// TracebackText is the traceback as text, for Go clients.
	TracebackText string `msg:"traceback_text,omitempty,lenient"`
}

// LostData reports that a result was lost with its workers.
//
//message:op lost-data
type LostData struct {
	Key Key `msg:"key,required"`
}

// TaskRetried reports that a task that had failed runs again.
//
//message:op task-retried
type TaskRetried struct {
	Key Key `msg:"key,required"`
}

// CancelledKeys reports that tasks will not be computed.
//
//message:op cancelled-keys
type CancelledKeys struct {
	Keys []Key `msg:"keys"`
	// Reason and Msg are those of the CancelKeys, or describe the cause.
	Reason string `msg:"reason,nil,lenient"`
	Msg    string `msg:"msg,nil,lenient"`
}

// Restart reports that the cluster was restarted: all tasks are dropped.
//
//message:op restart
type Restart struct{}

// AdjustHeartbeat sets the time between heartbeats of a client.
//
//message:op adjust-heartbeat-interval
type AdjustHeartbeat struct {
	Interval float64 `msg:"interval"` // in seconds
}

// Unrunnable reports tasks that no worker can run, to Millstream clients. It replaces the previous one.
//
//message:op millstream-unrunnable
type Unrunnable struct {
	Shortages []Shortage `msg:"shortages"`
	// Repeat makes the client log also shortages that it has logged before.
	Repeat bool `msg:"repeat"`
}

// Shortage is a set of tasks that no worker can run.
//
//message:part
type Shortage struct {
	Reason string `msg:"reason,lenient"`
	Text   string `msg:"text,lenient"`
	Tasks  int64  `msg:"tasks"` // how many there are, of all clients
	// Keys are some of those that the client wants; More reports whether there are others.
	Keys []Key `msg:"keys"`
	More bool  `msg:"more"`
}

// Event is an event of a topic that the client has subscribed to.
//
//message:op event
type Event struct {
	Topic string `msg:"topic,lenient"`
	// Event is a list of the time, in seconds since 1970, and the value.
	Event Object `msg:"event"`
}
