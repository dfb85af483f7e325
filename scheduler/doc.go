// Package scheduler is the process in the middle of a cluster: it knows every task, gives
// tasks to workers and tells clients of their ends. It speaks Dask's messages, to Go peers
// and to Python ones.
//
//	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	fmt.Println("scheduler at", s.Address())
//
// [FromConfig] reads Dask's settings (distributed.scheduler.*, distributed.comm.*).
//
// # How it works
//
// One goroutine, the loop, owns the state machine of package internal/engine/scheduler/state and
// everything beside it: peers, locks, queues, events. Readers of streams post whole
// messages to it; it walks over them without allocating, and what it says in return
// gathers in one buffer per peer, which leaves at the end of the turn from a goroutine of
// the peer's own. A peer that does not read is dropped when its buffer is full; it holds
// up nobody else. Handlers of requests run in goroutines of their own and enter the loop
// for as long as they look at the state.
//
// The subsystems are packages under internal, each with its own state, its handlers and a Host of what it needs of the
// scheduler: primitives, topics, plugins, graphs and helpers (Python), shuffle, recovery (journal), inspect, workers,
// clients, data, control and others. Scheduler connects them.
//
// # Unlike Dask
//
// Config.Journal keeps graphs, wishes of clients and coordination primitives in a
// directory. A scheduler that is killed and started again with the same directory goes on:
// Millstream clients and workers come back by themselves. Workers whose heartbeats stop
// are told so when they speak again, and what they say late is not heard. The journal has
// no data: results and scattered data stay on the workers, which announce them when they come
// back; what no worker announces is computed again, or cancelled where it was scattered.
//
// # What Millstream peers say beside Dask's messages
//
// The scheduler's first words to a client or worker of ours carry millstream {id, epoch}:
// another epoch is another life of a scheduler with a journal. key-in-memory names one
// holder (workers), task-erred the stack as text (traceback_text). A worker that comes back
// announces what it holds by add-keys with adopt and nbytes, one for each key: a task that
// is not done is then done. Its heartbeat reports the transfers since the last one in
// extensions.millstream: "transfers" is a list of [start, stop, bytes, lane, peer, direction,
// number of keys], "more-transfers" has the sums of incoming ones beyond a thousand: a map from
// lanes to [number, bytes, seconds].
//
// # HTTP
//
// Config.Dashboard serves /health, /metrics (Prometheus, Dask's names), /json/identity.json,
// /json/counts.json, and /millstream/tasks?since=N&count=M (ends of tasks with their parts),
// /millstream/transfers and /millstream/events?topic=T, all from rings of bounded length.
package scheduler
