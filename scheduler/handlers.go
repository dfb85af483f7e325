package scheduler

import (
	"runtime/debug"

	"go.millstream.dev/internal/rpc"
)

func stack() string { return string(debug.Stack()) }

// handlers sets the handlers of all requests, with the names and parameters of Dask.
func (s *Scheduler) handlers() {
	r := s.server
	r.Handle("register_nanny", s.registerNanny)
	r.Handle("subscribe_worker_status", s.subscribeWorkerStatus)

	rpc.Handle(r, "check_idle", s.checkIdleRPC)
	rpc.Handle(r, "performance_report", s.performanceReportRPC)
	rpc.Handle(r, "millstream-report", s.reportRPC)

	rpc.Handle(r, "register_scheduler_plugin", s.registerSchedulerPlugin)
	rpc.Handle(r, "unregister_scheduler_plugin", s.unregisterSchedulerPlugin)
	rpc.Handle(r, "run_function", s.runFunction)

	s.prims.Register(r)
	s.plugins.Register(r)
	s.workers.Register(r)
	s.clients.Register(r)
	s.versions.Register(r)
	s.topics.Register(r)
	s.relay.Register(r)
	s.data.Register(r)
	s.control.Register(r)
	s.memory.Register(r)
	s.inspect.Register(r)
	s.profiles.Register(r)
	s.feeds.Register(r)
	s.shuffles.Register(r)
	s.stream.Register(r)
	s.lines.Register(r)
	s.collectors.Register(r)
}

// waitingOps are requests that may wait for other peers. They occupy no slot of the server, so that the requests that
// they wait for are served.
var waitingOps = []string{
	"event_wait", "variable_get", "variable_set", "queue_put", "queue_get", "semaphore_acquire", "multi_lock_acquire",
	"publish_put", "publish_wait_flush", "shuffle_get", "shuffle_get_or_create", "shuffle_barrier",
	"gather", "scatter", "broadcast", "proxy", "benchmark_hardware", "get_cluster_state", "replicate", "rebalance",
	"retire_workers", "restart", "restart_workers", "versions", "call_stack", "profile", "profile_metadata",
	"worker_logs", "get_story", "get_runspec", "run_function",
	"register_worker_plugin", "unregister_worker_plugin", "register_nanny_plugin", "unregister_nanny_plugin",
	"register_scheduler_plugin", "unregister_scheduler_plugin", "feed",
}

// detachedOps are requests that run to completion when their callers disconnect: they change the cluster, or take over
// their comm and read its end themselves. Changes of primitives do not wait and are always made, see primitives.Change.
var detachedOps = []string{
	"register-client", "register-worker", "register_nanny", "subscribe_worker_status", "feed",
	"terminate", "unregister", "heartbeat_worker", "restart", "restart_workers", "retire_workers", "scatter",
	"retry", "add_keys", "log_event", "set_resources", "set_restrictions",
	"shuffle_get_or_create", "shuffle_barrier", "shuffle_restrict_task",
	"register_worker_plugin", "unregister_worker_plugin", "register_nanny_plugin", "unregister_nanny_plugin",
	"register_scheduler_plugin", "unregister_scheduler_plugin",
}
