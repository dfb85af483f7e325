package message

// Messages of clients to their scheduler.

// UpdateGraph submits a graph to the scheduler.
//
//message:op update-graph
type UpdateGraph struct {
	// Expr is the pickled expression that makes the graph.
	Expr Object `msg:"expr_ser"`
	// Keys are the wanted keys.
	Keys KeyList `msg:"keys"`
	// InternalPriority maps keys to numbers; nil lets the scheduler decide the order.
	InternalPriority Raw `msg:"internal_priority"`
	// SubmittingTask is the task that sent it, "" from outside a task.
	SubmittingTask Key `msg:"submitting_task,nil"`
	// FIFOTimeout is a duration as text or number, Actors a bool or a list of keys, UserPriority a number.
	FIFOTimeout Raw `msg:"fifo_timeout"`
	Actors      Raw `msg:"actors"`
	// Annotations, SpanMetadata and Code are pickled, or in the body.
	Annotations  Object `msg:"annotations"`
	SpanMetadata Object `msg:"span_metadata"`
	UserPriority Raw    `msg:"user_priority,omitempty"`
	Code         Object `msg:"code,omitempty"`
	StimulusID   string `msg:"stimulus_id,omitempty"`
}

// ClientDesiresKeys reports that a client wants results.
//
//message:op client-desires-keys
type ClientDesiresKeys struct {
	Keys   []Key  `msg:"keys"`
	Client string `msg:"client"`
}

// ClientReleasesKeys reports that a client no longer wants results.
//
//message:op client-releases-keys
type ClientReleasesKeys struct {
	Keys   []Key  `msg:"keys"`
	Client string `msg:"client"`
}

// CancelKeys cancels tasks.
//
//message:op cancel-keys
type CancelKeys struct {
	Keys   []Key  `msg:"keys"`
	Client string `msg:"client"`
	// Force cancels also tasks that other clients want.
	Force  bool   `msg:"force"`
	Reason string `msg:"reason"`
	Msg    string `msg:"msg,lenient"`
}

// ReportKey requests another report of the state of a key.
//
//message:op report-key
type ReportKey struct {
	Key Key `msg:"key,required"`
}

// UpdateData declares results that a client has put on workers.
//
//message:op update-data
type UpdateData struct {
	// WhoHas maps keys to lists of addresses, NBytes to sizes.
	WhoHas Object `msg:"who_has"`
	NBytes Object `msg:"nbytes"`
}

// HeartbeatClient reports that a client is alive.
//
//message:op heartbeat-client
type HeartbeatClient struct{}

// CloseClient reports that a client disconnects.
//
//message:op close-client
type CloseClient struct{}

// SubscribeTopic requests the events of a topic.
//
//message:op subscribe-topic
type SubscribeTopic struct {
	Topic string `msg:"topic"`
}

// UnsubscribeTopic ends SubscribeTopic.
//
//message:op unsubscribe-topic
type UnsubscribeTopic struct {
	Topic string `msg:"topic"`
}
