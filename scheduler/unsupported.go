package scheduler

import (
	"context"

	"go.millstream.dev/internal/rpc"
)

// notYet are ops of Dask's scheduler that this one does not have, and what to do instead.
// A server answers None to an op that it does not know, which a caller takes for an answer;
// these are refused in words.
var notYet = map[string]string{
	"benchmark_hardware":          "the scheduler measures no hardware; run `millstream bench` on the machines",
	"dump_cluster_state_to_url":   "Client.dump_cluster_state is not supported; Client.story, Client.get_task_stream and /json/counts.json have the state of tasks",
	"get_cluster_state":           "Client.dump_cluster_state is not supported; Client.story, Client.get_task_stream and /json/counts.json have the state of tasks",
	"memory_sampler_start":        "distributed.diagnostics.MemorySampler is not supported; run the block without it, /metrics has the memory of workers",
	"memory_sampler_stop":         "distributed.diagnostics.MemorySampler is not supported; run the block without it, /metrics has the memory of workers",
	"performance_report":          "distributed.performance_report is not supported; run the block without it, distributed.get_task_stream records its tasks",
	"profile":                     "profiles are not collected; profile a task on its worker, or use Client.call_stack",
	"unregister_scheduler_plugin": "the scheduler is written in Go and takes no plugins in Python; worker and nanny plugins work",
}

// ammHandler is amm_handler, Client.amm: there is no active memory manager that could run,
// which is all that can be said of it.
func (s *Scheduler) ammHandler(_ context.Context, _ *rpc.Request, in struct {
	Method string `rpc:"method"`
}) (any, error) {
	switch in.Method {
	case "running":
		return false, nil
	case "stop":
		return nil, nil
	}
	return nil, &rpc.Exception{Type: "NotImplementedError", Message: "amm_handler: policies of the active memory manager do not run here; replicate, rebalance and retire_workers move data"}
}

// notImplemented answers an op that is not there.
func notImplemented(op string) rpc.Handler {
	return func(context.Context, *rpc.Request) (any, error) {
		return nil, &rpc.Exception{Type: "NotImplementedError", Message: op + ": " + notYet[op]}
	}
}
