package message

// Messages of schedulers to workers.

// ComputeTask requests a worker to run a task.
//
//message:op compute-task
type ComputeTask struct {
	Key Key `msg:"key,required"`
	// RunID is echoed in the report.
	RunID int64 `msg:"run_id,required"`
	// Priority is a list of numbers: the lowest runs first.
	Priority   Raw    `msg:"priority"`
	StimulusID string `msg:"stimulus_id"`
	// WhoHas maps dependencies to lists of addresses, NBytes to their sizes.
	WhoHas Raw `msg:"who_has"`
	NBytes Raw `msg:"nbytes"`
	// RunSpec is the pickled task, or the bytes of a Go call.
	RunSpec Object `msg:"run_spec"`
	// ResourceRestrictions maps resources to amounts; nil without any.
	ResourceRestrictions Raw    `msg:"resource_restrictions"`
	Actor                bool   `msg:"actor"` // the task creates an actor
	Annotations          Object `msg:"annotations"`
	SpanID               string `msg:"span_id,nil"`
}

// FreeKeys requests a worker to drop tasks and results.
//
//message:op free-keys
type FreeKeys struct {
	Keys       []Key  `msg:"keys"`
	StimulusID string `msg:"stimulus_id"`
}

// RemoveReplicas requests a worker to drop results that others hold too.
//
//message:op remove-replicas
type RemoveReplicas struct {
	Keys       []Key  `msg:"keys"`
	StimulusID string `msg:"stimulus_id"`
}

// AcquireReplicas requests a worker to fetch results.
//
//message:op acquire-replicas
type AcquireReplicas struct {
	// WhoHas maps results to lists of addresses, NBytes to their sizes.
	WhoHas     Raw    `msg:"who_has"`
	NBytes     Raw    `msg:"nbytes"`
	StimulusID string `msg:"stimulus_id"`
}

// RefreshWhoHas answers a RequestRefreshWhoHas.
//
//message:op refresh-who-has
type RefreshWhoHas struct {
	WhoHas     Raw    `msg:"who_has"` // maps results to lists of addresses
	StimulusID string `msg:"stimulus_id"`
}

// StealRequest requests a task that has not started, to run it elsewhere.
//
//message:op steal-request
type StealRequest struct {
	Key        Key    `msg:"key,required"`
	StimulusID string `msg:"stimulus_id"`
}

// CancelCompute cancels a ComputeTask.
//
//message:op cancel-compute
type CancelCompute struct {
	Key        Key    `msg:"key,required"`
	StimulusID string `msg:"stimulus_id"`
}

// StoreValues passes short results to a Millstream worker, which then holds them.
//
//message:op millstream-values
type StoreValues struct {
	Data       Raw    `msg:"data"` // maps keys to results
	StimulusID string `msg:"stimulus_id"`
}

// RemoveWorker reports that another worker has left.
//
//message:op remove-worker
type RemoveWorker struct {
	Worker     string `msg:"worker"` // its address
	StimulusID string `msg:"stimulus_id"`
}

// ShuffleFail reports to a worker that a run of a shuffle has ended.
//
//message:op shuffle-fail
type ShuffleFail struct {
	ShuffleID string `msg:"shuffle_id"`
	RunID     int64  `msg:"run_id"`
	Message   string `msg:"message"`
}

// Close requests a worker to end.
//
//message:op close
type Close struct {
	Reason string `msg:"reason,lenient"`
}
