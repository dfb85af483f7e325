package taskbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// zeroWorkers are workers that do nothing: they report every task as finished immediately, and keep no data, so that
// the cost of a cluster is that of its scheduler. They use the worker protocol, each over its own connection.
type zeroWorkers struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	list    []*zeroWorker
}

// zeroWorker is one of them. Only its goroutine uses it.
type zeroWorker struct {
	comm      comm.Comm
	listener  comm.Listener
	scheduler string
	address   string
	threads   int
	interval  time.Duration

	body  message.Buffer // messages of the current answer, without the head of the list
	count int
	order message.ComputeTask
	parts [1]message.Part
}

// startZero registers workers with a scheduler.
func startZero(ctx context.Context, scheduler string, workers, threads int) (*zeroWorkers, error) {
	run, cancel := context.WithCancel(ctx)
	z := &zeroWorkers{cancel: cancel}
	for range workers {
		w := &zeroWorker{scheduler: scheduler, threads: threads}
		if err := w.register(ctx); err != nil {
			w.close()
			z.close()
			return nil, err
		}
		z.list = append(z.list, w)
		z.running.Go(func() { w.serve(run) })
		z.running.Go(func() { w.beat(run) })
	}
	return z, nil
}

func (z *zeroWorkers) close() {
	z.cancel()
	for _, w := range z.list {
		w.close()
	}
	z.running.Wait()
}

func (w *zeroWorker) close() {
	if w.comm != nil {
		w.comm.Abort()
	}
	if w.listener != nil {
		_ = w.listener.Close()
	}
}

// register registers the worker. The listener only provides an address.
func (w *zeroWorker) register(ctx context.Context) (err error) {
	if w.listener, err = comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{}); err != nil {
		return err
	}
	w.address = w.listener.ContactAddr()
	if w.comm, err = comm.Dial(ctx, w.scheduler, comm.DialConfig{}); err != nil {
		return err
	}
	err = rpc.Notify(ctx, w.comm, "register-worker", msgpack.MapOf(
		"address", w.address, "status", "running", "nthreads", w.threads, "name", w.address, "now", now(), "pid",
		os.Getpid(),
		"resources", msgpack.Map{}, "memory_limit", int64(1)<<40, "local_directory", "", "services", msgpack.Map{},
		"nanny", nil,
		"versions", msgpack.MapOf("packages", msgpack.Map{}), "metrics", w.metrics(), "server_id", w.address,
		"stimulus_id", "zero",
		"extra", msgpack.MapOf("millstream", msgpack.MapOf("registry", task.Hash()))))
	if err != nil {
		return err
	}
	m, err := w.comm.Read(ctx)
	if err != nil {
		return fmt.Errorf("register with %s: %w", w.scheduler, err)
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{KeepPickled: true})
	if err != nil {
		return err
	}
	reply, _ := v.(wire.Dict)
	if status := reply.GetString("status"); status != "OK" {
		return fmt.Errorf("register with %s: status %q: %s%s", w.scheduler, status, reply.GetString("message"),
			reply.GetString("exception_text"))
	}
	interval, _ := reply.Get("heartbeat-interval")
	seconds, _ := interval.(float64)
	w.interval = max(time.Duration(seconds*float64(time.Second)), 100*time.Millisecond)
	return nil
}

func now() float64 { return unixSeconds(time.Now()) }

// metrics returns the metrics of an idle worker.
func (w *zeroWorker) metrics() msgpack.Map {
	none := msgpack.Map{}
	return msgpack.MapOf(
		"task_counts", none, "bandwidth", msgpack.MapOf("total", 1e8, "workers", none, "types", none),
		"digests_total_since_heartbeat", none,
		"managed_bytes", 0, "spilled_bytes", msgpack.MapOf("memory", 0, "disk", 0), "transfer",
		msgpack.MapOf("incoming_bytes", 0, "incoming_count", 0,
			"incoming_count_total", 0, "outgoing_bytes", 0, "outgoing_count", 0, "outgoing_count_total", 0),
		"event_loop_interval", 0.02, "cpu", 0.0, "memory", int64(1)<<20, "time", now(), "num_fds", 8,
		"host_net_io", msgpack.MapOf("read_bps", 0.0, "write_bps", 0.0), "host_disk_io",
		msgpack.MapOf("read_bps", 0.0, "write_bps", 0.0))
}

// beat sends heartbeats.
func (w *zeroWorker) beat(ctx context.Context) {
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	defer pool.Close()
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var reply msgpack.Map
		err := pool.Call(ctx, w.scheduler, "heartbeat_worker", msgpack.MapOf("address", w.address, "now", now(),
			"metrics", w.metrics(),
			"executing", msgpack.Map{}, "extensions", msgpack.Map{}), &reply)
		if err != nil {
			return // the stream has ended, too
		}
	}
}

// serve handles messages until the comm ends.
func (w *zeroWorker) serve(ctx context.Context) {
	for {
		m, err := w.comm.Read(ctx)
		if err != nil {
			return
		}
		err = w.answer(m.Body())
		m.Release()
		if err == nil && w.count > 0 {
			head := msgpack.AppendArrayHeader(nil, w.count)
			body := append(head, w.body.Body...)
			err = w.comm.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}})
			w.body.Body, w.count = w.body.Body[:0], 0
		}
		if err != nil {
			w.comm.Abort()
			return
		}
	}
}

var errClose = errors.New("closed by the scheduler")

// answer appends the answers to the messages of a body.
func (w *zeroWorker) answer(body []byte) error {
	ops := message.ReadOps(body)
	for ops.Next() {
		switch string(ops.Op()) {
		case "compute-task":
			if err := w.order.Read(&ops); err != nil {
				return err
			}
			w.finished()
		case "steal-request":
			if err := w.refuse(&ops); err != nil {
				return err
			}
		case "close", "close-stream":
			return errClose
		}
	}
	return ops.Err()
}

// finished reports the task of w.order as finished.
func (w *zeroWorker) finished() {
	w.count++
	t := now()
	w.parts[0] = message.Part{Action: "compute", Start: t, Stop: t}
	f := message.TaskFinished{StimulusID: w.order.StimulusID, Key: w.order.Key, RunID: w.order.RunID, Status: "OK",
		NBytes: 8, TypeName: "int64", Metadata: message.EmptyMap, Thread: 1,
		StartStops: message.StartStops{Parts: w.parts[:]}}
	f.Append(&w.body)
}

// refuse answers a steal-request: the task is done.
func (w *zeroWorker) refuse(ops *message.Ops) error {
	var f message.StealRequest
	if err := f.Read(ops); err != nil {
		return err
	}
	w.count++
	reply := message.StealResponse{Key: f.Key, State: "memory", StimulusID: f.StimulusID}
	reply.Append(&w.body)
	return nil
}
