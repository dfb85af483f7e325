package message

// Messages about primitives, of clients and of workers' tasks. Their names are any hashable Python value: keys.

// VariableReceived confirms that a future of a variable has arrived.
//
//message:op variable-future-received-confirm
type VariableReceived struct {
	Name  Key    `msg:"name,required"`
	Key   Key    `msg:"key,required"`
	Token string `msg:"token,omitempty"`
}

// VariableDelete unsets a variable.
//
//message:op variable_delete
type VariableDelete struct {
	Name Key `msg:"name,required"`
}

// QueueReceived confirms that a future of a queue has arrived.
//
//message:op queue-future-release
type QueueReceived struct {
	Name  Key    `msg:"name,required"`
	Key   Key    `msg:"key,required"`
	Token string `msg:"token,omitempty"`
}

// QueueRelease releases a queue.
//
//message:op queue_release
type QueueRelease struct {
	Name Key `msg:"name,required"`
}

// PublishFlush marks a position in a stream, before a request that waits for the mark.
//
//message:op publish_flush_batched_send
type PublishFlush struct {
	UID Raw `msg:"uid"`
}
