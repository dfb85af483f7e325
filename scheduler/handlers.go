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
	rpc.Handle(r, "versions", s.versionsRPC)

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
	s.relay.Register(r)
	s.data.Register(r)
	s.control.Register(r)
	s.inspect.Register(r)
	s.feeds.Register(r)
	s.shuffles.Register(r)
	s.stream.Register(r)
	s.lines.Register(r)
	s.collectors.Register(r)
}
