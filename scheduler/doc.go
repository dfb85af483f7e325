// Package scheduler implements the scheduler of a cluster: it tracks all tasks, assigns them to workers and reports
// their results to clients. Go and Python peers connect to it with the Dask protocol.
//
//	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	fmt.Println("scheduler at", s.Address())
//
// [FromConfig] reads the settings of Dask (distributed.scheduler.*, distributed.comm.*).
//
// # Design
//
// One goroutine, the loop, owns the state machine of package internal/engine/scheduler/state and all other state:
// peers, locks, queues, events. Readers of streams post whole messages to the loop, which parses them without
// allocating. Its replies gather in one buffer per peer, which a goroutine of the peer writes at the end of the turn. A
// peer that does not read is disconnected when its buffer is full; it delays no other peer. Handlers of requests run in
// goroutines of their own and enter the loop while they access the state.
//
// The subsystems are packages under internal, each with its own state, its handlers and a Host of the functions that it
// needs from the scheduler: primitives, topics, plugins, graphs and helpers (Python), shuffle, recovery (journal),
// inspect, workers, clients, data, control and others. Scheduler connects them.
//
// # Differences from Dask
//
// Config.Journal keeps graphs, futures of clients and coordination primitives in a directory. A scheduler that is
// killed and restarted with the same directory continues: Millstream clients and workers reconnect. A worker that was
// removed because its heartbeats stopped is notified when it sends again, and its late messages are ignored. The
// journal has no data: results and scattered data stay on the workers, which announce them when they reconnect. Results
// that no worker announces are recomputed; scattered data that no worker announces is canceled.
//
// # Extensions of the protocol
//
// The first message to a Millstream client or worker has millstream {id, epoch}: another epoch is another start of a
// scheduler with a journal. key-in-memory has one holder (workers), task-erred the stack as text (traceback_text). A
// worker that reconnects announces its results by add-keys with adopt and nbytes, one for each key: tasks that are not
// done are then done. Its heartbeat reports the transfers since the last one in extensions.millstream: "transfers" is a
// list of [start, stop, bytes, scheme, peer, direction, number of keys, transport], "more-transfers" has the sums of
// incoming ones beyond a thousand: a map from schemes to [number, bytes, seconds]. The transport is that of UCX which
// moved the data, "" if it is not known; older workers do not send it. "cliques" are the cliques of the worker: a list
// of [id, rank, size, backend, error, map from operations to [calls, bytes, seconds], end]. The end is the time when
// the clique was dissolved, 0 before.
//
// # HTTP
//
// Config.Dashboard serves /health, /metrics (Prometheus, with the names of Dask), /json/identity.json,
// /json/counts.json, and /millstream/tasks?since=N&count=M (completed tasks with their parts), /millstream/transfers
// and /millstream/events?topic=T, all from rings of bounded length. On an address that other machines reach, every page
// except /health needs Config.DashboardToken or a certificate of the cluster.
package scheduler
