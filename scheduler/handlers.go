package scheduler

import (
	"context"
	"runtime/debug"

	"go.millstream.dev/rpc"
)

func stack() string { return string(debug.Stack()) }

// handlers sets the handlers of all requests, with Dask's names and parameters.
func (s *Scheduler) handlers() {
	r := s.server
	r.Handle("register-worker", s.registerWorker)
	r.Handle("register-client", s.registerClient)
	r.Handle("register_nanny", s.registerNanny)
	r.Handle("subscribe_worker_status", s.subscribeWorkerStatus)
	rpc.Handle(r, "heartbeat_worker", s.heartbeatWorker)
	rpc.Handle(r, "unregister", s.unregister)
	rpc.Handle(r, "identity", s.identityRPC)
	rpc.Handle(r, "versions", s.versionsRPC)

	rpc.Handle(r, "gather", s.gather)
	rpc.Handle(r, "scatter", s.scatter)
	rpc.Handle(r, "broadcast", s.broadcastRPC)
	rpc.Handle(r, "proxy", s.proxy)
	rpc.Handle(r, "update_data", s.updateDataRPC)
	rpc.Handle(r, "add_keys", s.addKeysRPC)
	rpc.Handle(r, "replicate", s.replicate)
	rpc.Handle(r, "rebalance", s.rebalance)
	rpc.Handle(r, "retire_workers", s.retireWorkers)
	rpc.Handle(r, "workers_to_close", s.workersToClose)
	rpc.Handle(r, "adaptive_target", s.adaptiveTarget)
	rpc.Handle(r, "restart", s.restart)
	rpc.Handle(r, "restart_workers", s.restartWorkersRPC)
	rpc.Handle(r, "terminate", s.terminate)
	rpc.Handle(r, "retry", s.retry)

	rpc.Handle(r, "who_has", s.whoHas)
	rpc.Handle(r, "has_what", s.hasWhat)
	rpc.Handle(r, "ncores", s.ncores)
	rpc.Handle(r, "ncores_running", s.ncoresRunning)
	rpc.Handle(r, "nbytes", s.nbytes)
	rpc.Handle(r, "processing", s.processing)
	rpc.Handle(r, "call_stack", s.callStack)
	rpc.Handle(r, "get_task_status", s.taskStatus)
	rpc.Handle(r, "get_task_prefix_states", s.prefixStates)
	rpc.Handle(r, "get_task_stream", s.getTaskStream)
	rpc.Handle(r, "get_task_stream_index", s.getTaskStreamIndex)
	rpc.Handle(r, "get_error_cause", s.errorCause)
	rpc.Handle(r, "get_runspec", s.runspec)
	rpc.Handle(r, "get_story", s.story)
	rpc.Handle(r, "get_metadata", s.getMetadata)
	rpc.Handle(r, "set_metadata", s.setMetadata)
	rpc.Handle(r, "set_resources", s.setResources)
	rpc.Handle(r, "set_restrictions", s.setRestrictions)
	rpc.Handle(r, "events", s.getEvents)
	rpc.Handle(r, "log_event", s.logEventRPC)
	rpc.Handle(r, "get_logs", s.getLogs)
	rpc.Handle(r, "logs", s.getLogs)
	rpc.Handle(r, "worker_logs", s.workerLogs)
	rpc.Handle(r, "check_idle", s.checkIdleRPC)

	rpc.Handle(r, "register_worker_plugin", s.registerWorkerPlugin)
	rpc.Handle(r, "unregister_worker_plugin", s.unregisterWorkerPlugin)
	rpc.Handle(r, "register_nanny_plugin", s.registerNannyPlugin)
	rpc.Handle(r, "unregister_nanny_plugin", s.unregisterNannyPlugin)
	for _, op := range []string{"run_function", "feed", "register_scheduler_plugin", "unregister_scheduler_plugin"} {
		r.Handle(op, refusePython)
	}

	rpc.Handle(r, "variable_set", s.variableSetRPC)
	rpc.Handle(r, "variable_get", s.variableGetRPC)
	rpc.Handle(r, "queue_create", s.queueCreateRPC)
	rpc.Handle(r, "queue_put", s.queuePutRPC)
	rpc.Handle(r, "queue_get", s.queueGetRPC)
	rpc.Handle(r, "queue_qsize", s.queueSizeRPC)
	rpc.Handle(r, "semaphore_register", s.semaphoreRegister)
	rpc.Handle(r, "semaphore_acquire", s.semaphoreAcquire)
	rpc.Handle(r, "semaphore_release", s.semaphoreRelease)
	rpc.Handle(r, "semaphore_refresh_leases", s.semaphoreRefresh)
	rpc.Handle(r, "semaphore_close", s.semaphoreClose)
	rpc.Handle(r, "semaphore_value", s.semaphoreValue)
	rpc.Handle(r, "event_wait", s.eventWaitRPC)
	rpc.Handle(r, "event_set", s.eventSetRPC)
	rpc.Handle(r, "event_clear", s.eventClearRPC)
	rpc.Handle(r, "event_is_set", s.eventIsSetRPC)
	rpc.Handle(r, "multi_lock_acquire", s.multiLockAcquire)
	rpc.Handle(r, "multi_lock_release", s.multiLockRelease)
	rpc.Handle(r, "publish_put", s.publishPut)
	rpc.Handle(r, "publish_get", s.publishGet)
	rpc.Handle(r, "publish_list", s.publishList)
	rpc.Handle(r, "publish_delete", s.publishDelete)
}

// refusePython answers what would run a pickled function within the scheduler.
func refusePython(_ context.Context, r *rpc.Request) (any, error) {
	return nil, &rpc.Exception{Type: "NotImplementedError", Message: "this scheduler is written in Go and runs no Python code (" + r.Op + "): run it on a worker instead"}
}
