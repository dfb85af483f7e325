package scheduler

// waitingOps are requests that may wait for other peers. They hold none of the server's
// slots, so that the requests that they wait for are served.
var waitingOps = []string{
	"event_wait", "variable_get", "variable_set", "queue_put", "queue_get", "semaphore_acquire", "multi_lock_acquire",
	"publish_put", "publish_wait_flush", "shuffle_get", "shuffle_get_or_create", "shuffle_barrier",
	"gather", "scatter", "broadcast", "proxy", "replicate", "rebalance", "retire_workers", "restart", "restart_workers",
	"versions", "call_stack", "worker_logs", "get_story", "get_runspec", "run_function",
	"register_worker_plugin", "unregister_worker_plugin", "register_nanny_plugin", "unregister_nanny_plugin",
	"register_scheduler_plugin", "feed",
}

// detachedOps are requests that are finished when their callers hang up: they change the
// cluster, or take their comm over and read its end themselves. Changes of primitives do not
// wait and are always made, see Scheduler.change.
var detachedOps = []string{
	"register-client", "register-worker", "register_nanny", "subscribe_worker_status", "feed",
	"terminate", "unregister", "heartbeat_worker", "restart", "restart_workers", "retire_workers", "scatter",
	"retry", "add_keys", "log_event", "set_resources", "set_restrictions",
	"shuffle_get_or_create", "shuffle_barrier", "shuffle_restrict_task",
	"register_worker_plugin", "unregister_worker_plugin", "register_nanny_plugin", "unregister_nanny_plugin",
	"register_scheduler_plugin",
}
