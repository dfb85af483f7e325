package scheduler

import (
	"runtime/debug"

	"go.millstream.dev/internal/rpc"
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
	rpc.Handle(r, DeathOp, s.reportDeath)
	rpc.Handle(r, "unregister", s.unregister)
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

	rpc.Handle(r, "call_stack", s.callStack)
	rpc.Handle(r, "set_resources", s.setResources)
	rpc.Handle(r, "set_restrictions", s.setRestrictions)
	rpc.Handle(r, "worker_logs", s.workerLogs)
	rpc.Handle(r, "check_idle", s.checkIdleRPC)

	rpc.Handle(r, "amm_handler", s.ammHandler)
	for op := range notYet {
		r.Handle(op, notImplemented(op))
	}
	rpc.Handle(r, "register_scheduler_plugin", s.registerSchedulerPlugin)
	rpc.Handle(r, "run_function", s.runFunction)

	s.prims.Register(r)
	s.plugins.Register(r)
	s.topics.Register(r)
	s.inspect.Register(r)
	s.feeds.Register(r)
	s.shuffles.Register(r)
	s.stream.Register(r)
	s.lines.Register(r)
	s.collectors.Register(r)
}
