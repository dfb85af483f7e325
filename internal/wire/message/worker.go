package message

// Messages of workers to their scheduler.

// TaskFinished reports that a task's result is in a worker's memory.
//
//message:op task-finished
type TaskFinished struct {
	StimulusID string `msg:"stimulus_id"`
	Key        Key    `msg:"key,required"`
	// RunID echoes that of the ComputeTask.
	RunID  int64  `msg:"run_id,required,min=0"`
	Status string `msg:"status"` // OK
	NBytes int64  `msg:"nbytes"` // of the result
	// Type is the pickle of the result's class, nil for Go types; TypeName its name.
	Type       []byte     `msg:"type"`
	TypeName   string     `msg:"typename"`
	Metadata   Raw        `msg:"metadata"` // a map
	Thread     int64      `msg:"thread"`
	StartStops StartStops `msg:"startstops"`
	// Value is a short result, for Millstream schedulers.
	Value Raw `msg:"value,omitempty"`
	// Waited is the time in seconds, before the first of StartStops that is no transfer, for which the task could have
	// run and its thread was idle, for Millstream schedulers.
	Waited float64 `msg:"waited,omitempty"`
}

// TaskErred reports that a task failed.
//
//message:op task-erred
type TaskErred struct {
	StimulusID string `msg:"stimulus_id"`
	Key        Key    `msg:"key,required"`
	RunID      int64  `msg:"run_id"`
	Status     string `msg:"status"` // error
	// Exception and Traceback are serialized.
	Exception     Object     `msg:"exception"`
	Traceback     Object     `msg:"traceback"`
	ExceptionText string     `msg:"exception_text"`
	TracebackText string     `msg:"traceback_text"`
	Thread        int64      `msg:"thread"`
	StartStops    StartStops `msg:"startstops"`
}

// AddKeys announces results that a worker holds.
//
//message:op add-keys
type AddKeys struct {
	StimulusID string `msg:"stimulus_id"`
	Keys       []Key  `msg:"keys"`
	// NBytes are the sizes of the results that a Millstream scheduler is to adopt.
	NBytes []int64 `msg:"nbytes,omitempty"`
	Adopt  bool    `msg:"adopt,omitempty"`
}

// RequestRefreshWhoHas requests the locations of results.
//
//message:op request-refresh-who-has
type RequestRefreshWhoHas struct {
	StimulusID string `msg:"stimulus_id"`
	Keys       []Key  `msg:"keys"`
}

// ReleaseWorkerData reports that a worker has dropped a result.
//
//message:op release-worker-data
type ReleaseWorkerData struct {
	StimulusID string `msg:"stimulus_id"`
	Key        Key    `msg:"key,required"`
}

// Reschedule requests a task to be run elsewhere.
//
//message:op reschedule
type Reschedule struct {
	StimulusID string `msg:"stimulus_id"`
	Key        Key    `msg:"key,required"`
	RunID      int64  `msg:"run_id,omitempty"`
}

// LongRunning reports that a task has seceded.
//
//message:op long-running
type LongRunning struct {
	StimulusID string `msg:"stimulus_id"`
	Key        Key    `msg:"key,required"`
	RunID      int64  `msg:"run_id"`
	// ComputeDuration is how long it ran, in seconds; negative if unknown.
	ComputeDuration float64 `msg:"compute_duration,none=-1"`
}

// StealResponse answers a StealRequest. Its StimulusID is that of the request.
//
//message:op steal-response
type StealResponse struct {
	Key Key `msg:"key,required"`
	// State is the state of the task, "" if it is unknown to the worker.
	State      string `msg:"state,nil"`
	StimulusID string `msg:"stimulus_id"`
}

// WorkerStatusChange reports the status of a worker, or requests a change.
//
//message:op worker-status-change
type WorkerStatusChange struct {
	Status     string `msg:"status"`
	StimulusID string `msg:"stimulus_id"`
}

// LogEvent adds an event to topics.
//
//message:op log-event
type LogEvent struct {
	Topic Object `msg:"topic"` // a text or a list of them
	Msg   Object `msg:"msg"`
}

// CloseStream is the last message of a stream.
//
//message:op close-stream
type CloseStream struct {
	// Reason, if set, is why the worker ends, caused by its tasks.
	Reason string `msg:"reason,omitempty"`
}

// KeepAlive has no meaning; it keeps the connection in use.
//
//message:op keep-alive
type KeepAlive struct{}
