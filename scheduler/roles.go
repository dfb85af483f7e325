package scheduler

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io/fs"
	"slices"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/secure"
)

// workerOps are the requests that the certificate of a worker allows: those of workers and
// nannies themselves, and what clients within tasks (worker_client, get_client) need to
// submit work, to move data and to coordinate. Requests that direct the cluster or run code
// outside of tasks (terminate, restart, retire_workers of others, broadcast, run_function,
// plugins, …) need that of a client.
var workerOps = []string{
	"register-worker", "heartbeat_worker", DeathOp, "register_nanny", "unregister", "versions", "log_event",
	"shuffle_get", "shuffle_get_or_create", "shuffle_barrier", "shuffle_restrict_task",
	"variable_set", "variable_get", "queue_create", "queue_put", "queue_get", "queue_qsize",
	"semaphore_register", "semaphore_acquire", "semaphore_release", "semaphore_refresh_leases", "semaphore_close", "semaphore_value",
	"event_wait", "event_set", "event_clear", "event_is_set", "multi_lock_acquire", "multi_lock_release",
	"publish_put", "publish_get", "publish_wait_flush", "publish_list", "publish_delete",
	"register-client", "gather", "scatter", "update_data", "add_keys", "replicate", "rebalance", "retry",
	"who_has", "has_what", "ncores", "ncores_running", "nbytes", "processing", "feed",
	"get_task_status", "get_task_prefix_states", "get_task_stream", "get_task_stream_index", "get_error_cause", "get_story",
	"get_metadata", "set_metadata", "start_task_metadata", "stop_task_metadata", "events",
	"retire_workers", "proxy", // within the bounds of checkRetire and checkProxy
}

// onlyWorkers are the requests that the certificate of a client does not allow.
var onlyWorkers = []string{"register-worker", "heartbeat_worker", DeathOp}

// proxied are the requests that a worker may make of another through the scheduler: those
// that it may make directly.
var proxied = []string{"actor_execute", "actor_attribute", "get_data", "update_data", "identity", "ping"}

// roles says who may call what. On comms without TLS no peer is known and all is allowed.
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

// isOnlyWorker reports whether a peer has shown a certificate that makes it a worker and
// not a client.
func isOnlyWorker(c comm.Comm) bool {
	state := c.Info().TLS
	return state != nil && !secure.Allows(state, secure.Client) && !secure.Allows(state, secure.Scheduler)
}

// checkRetire lets a worker retire itself, as it does when it is asked to end, and no other. A Millstream worker shows
// the secret of its registration: all workers may have the same certificate. One of Dask has none and is known by its
// host alone.
func (s *Scheduler) checkRetire(ctx context.Context, c comm.Comm, workers []any, other bool, incarnation string) error {
	if !isOnlyWorker(c) {
		return nil
	}
	if len(workers) == 1 && !other {
		own, err := loop.Ask(ctx, s.loop, func() (bool, error) {
			w := s.workers.Find(workers[0])
			if w == nil || w.Incarnation == "" {
				// Its address may be of another interface than the one that it connects from.
				return w == nil || sameHost(w.Address, c.PeerAddr()) || sameHost(w.Stream.Comm.PeerAddr(), c.PeerAddr()), nil
			}
			return subtle.ConstantTimeCompare([]byte(w.Incarnation), []byte(incarnation)) == 1, nil
		})
		if err != nil || own {
			return err
		}
	}
	return s.refusedRole(c, "retire_workers", "retire another worker")
}

// checkProxy lets a worker ask another for what it may ask directly. A message may have a name twice: Python takes the
// last one, so all of them count.
func (s *Scheduler) checkProxy(c comm.Comm, msg msgpack.Map) error {
	if !isOnlyWorker(c) {
		return nil
	}
	ops := 0
	for _, p := range msg {
		if name := fmt.Sprintf("%s", p.Key); name != "op" {
			continue
		}
		ops++
		if op, ok := p.Value.(string); !ok || !slices.Contains(proxied, op) {
			return s.refusedRole(c, "proxy", fmt.Sprintf("call %.40q of another worker", fmt.Sprint(p.Value)))
		}
	}
	if ops != 1 {
		return s.refusedRole(c, "proxy", fmt.Sprintf("send another worker a message with %d ops", ops))
	}
	return nil
}

func (s *Scheduler) refusedRole(c comm.Comm, op, what string) error {
	s.log.Warn("request refused", "op", op, "peer", c.PeerAddr(), "reason", "a worker's certificate does not allow to "+what)
	return fmt.Errorf("scheduler: %s: the certificate of %s is a worker's and does not allow to %s: %w", op, c.PeerAddr(), what, fs.ErrPermission)
}

// sameHost reports whether two addresses have the same host.
func sameHost(a, b string) bool {
	x, err := comm.AddressHost(a)
	y, err2 := comm.AddressHost(b)
	return err == nil && err2 == nil && x == y
}
