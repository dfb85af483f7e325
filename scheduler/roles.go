package scheduler

import (
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/workers"
	"go.millstream.dev/secure"
)

// DeathOp is the request by which the nanny of a worker process reports how the process ended. Its arguments are token,
// a secret with which the process has registered, and cause.
const DeathOp = workers.DeathOp

// workerOps are the requests that the certificate of a worker allows: those of workers and nannies themselves, and
// those with which clients in tasks (worker_client, get_client) submit work, move data and coordinate. Requests that
// control the cluster or run code outside of tasks (terminate, restart, retire_workers of others, broadcast,
// run_function, plugins, …) need the certificate of a client.
var workerOps = []string{
	"register-worker", "heartbeat_worker", DeathOp, "register_nanny", "unregister", "versions", "log_event",
	"shuffle_get", "shuffle_get_or_create", "shuffle_barrier", "shuffle_restrict_task",
	"variable_set", "variable_get", "queue_create", "queue_put", "queue_get", "queue_qsize",
	"semaphore_register", "semaphore_acquire", "semaphore_release", "semaphore_refresh_leases", "semaphore_close",
	"semaphore_value",
	"event_wait", "event_set", "event_clear", "event_is_set", "multi_lock_acquire", "multi_lock_release",
	"publish_put", "publish_get", "publish_wait_flush", "publish_list", "publish_delete",
	"register-client", "gather", "scatter", "update_data", "add_keys", "replicate", "rebalance", "retry",
	"who_has", "has_what", "ncores", "ncores_running", "nbytes", "processing", "feed",
	"get_task_status", "get_task_prefix_states", "get_task_stream", "get_task_stream_index", "get_error_cause",
	"get_story",
	"get_metadata", "set_metadata", "start_task_metadata", "stop_task_metadata", "events",
	"retire_workers", "proxy", // limited by checkRetire and checkProxy
}

// onlyWorkers are the requests that the certificate of a client does not allow.
var onlyWorkers = []string{"register-worker", "heartbeat_worker", DeathOp}

// roles specifies the ops of each role. On comms without TLS the role of a peer is unknown and all ops are allowed.
var roles = func() rpc.Roles {
	t := rpc.Roles{
		"identity": {secure.Client, secure.Worker, secure.Scheduler, secure.Viewer},
		"":         {secure.Client, secure.Scheduler},
	}
	for _, op := range workerOps {
		t[op] = []secure.Role{secure.Client, secure.Scheduler, secure.Worker}
	}
	for _, op := range onlyWorkers {
		t[op] = []secure.Role{secure.Worker}
	}
	return t
}()
