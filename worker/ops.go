package worker

import (
	"fmt"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/ops"
)

// newServer returns the RPC server of the worker, with all its ops.
func (w *Worker) newServer() *rpc.Server {
	s := rpc.NewServer(rpc.Config{Type: "Worker", ID: w.id, Identity: w.identity,
		State: func() msgpack.Map { return dump(w) }, Authorize: ops.Roles.Authorize,
		Blocked: w.cfg.Blocked, Decode: ops.Decode, Logger: w.log, Waiting: ops.Waiting, Detached: ops.Detached})
	gpu := ""
	if w.cfg.GPU != nil {
		gpu = w.cfg.GPU.UUID
	}
	ops.Register(s, ops.Config{Logger: w.log, Memory: w.memory, Exec: w.exec, Transfers: w.transfers,
		Sidecar: w.sidecar,
		Logs:    w.logs.records, Monitor: w.usage, Host: &w.host, Peers: &w.connections,
		Trusted: w.cfg.DataConnections.Trusted,
		GPU:     gpu,
		Worker: ops.Worker{
			Address:  w.Address,
			Closed:   ErrClosed,
			Do:       w.do,
			Store:    w.store,
			FreeKeys: w.freeKeys,
			Story: func(keys []task.Key, stimuli []string) (list []state.Transition) {
				w.do(func() { list = w.state.Story(keys, stimuli) })
				return list
			},
			Versions: w.versions,
			Terminate: func(peer string) {
				// The reply must be sent before the server closes.
				w.after(50*time.Millisecond, func() {
					w.shutDownAsync(fmt.Errorf("%w: terminate from %s", ErrSchedulerClosed, peer))
				})
			},
		}})
	return s
}

func (w *Worker) identity() msgpack.Map {
	var limit any
	if w.cfg.MemoryLimit > 0 {
		limit = w.cfg.MemoryLimit
	}
	return msgpack.MapOf("scheduler", w.cfg.Scheduler, "nthreads", w.cfg.Threads, "memory_limit", limit,
		"address", w.address, "name", w.name, "status", w.Status(), "millstream",
		msgpack.MapOf("registry", task.Hash(), "functions", task.Names()))
}

// store stores values that were not computed here and applies them to the state.
func (w *Worker) store(values []*task.Value, stored []state.Stored) bool {
	return w.do(func() {
		for i, v := range values {
			w.data.Put(stored[i].Key, v, stored[i].NBytes)
		}
		w.apply(&state.UpdateData{Stimulus: w.stimulus, Data: stored})
	})
}

// freeKeys frees an encoded list of keys.
func (w *Worker) freeKeys(raw []byte) error {
	keys, err := message.ReadKeys(raw)
	if err != nil {
		return err
	}
	if !w.do(func() { w.apply(&state.FreeKeys{Stimulus: w.stimulus, Keys: keys}) }) {
		return ErrClosed
	}
	return nil
}
