package hostile

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

func init() {
	register(
		attack{name: "data that is never acknowledged", targets: onTCP | onTLS | plain, long: true, named: true,
			run: by((*Rig).attackAcknowledgements)},
		attack{name: "graphs that sleep", targets: onTCP | onTLS | plain | journaled, run: by((*Rig).attackSleepers)},
		attack{name: "helpers that take memory and processes", targets: onTCP | plain | journaled,
			run: by((*Rig).attackResources)},
	)
}

// attackAcknowledgements asks workers for the honest result more often than they answer at once, and acknowledges
// nothing.
func (r *Rig) attackAcknowledgements(ctx context.Context) error {
	for _, address := range []string{r.Worker.Address, r.NannyWorker} {
		for i := range 100 {
			c, err := r.Dial(ctx, address, secure.Worker)
			if err != nil {
				return fmt.Errorf("connection %d to %s: %w", i, address, err)
			}
			args := msgpack.MapOf("keys", []any{"honest-kept"}, "who", nil, "max_connections", false)
			if err := rpc.Notify(ctx, c, "get_data", args); err != nil {
				return fmt.Errorf("get_data %d of %s: %w", i, address, err)
			}
		}
	}
	return nil
}

// attackSleepers sends graphs that sleep when they are opened, more than there are processes for them, and hangs up.
// The graph of another client is opened soon after.
func (r *Rig) attackSleepers(ctx context.Context) error {
	const sleepers = 4
	for i := range sleepers {
		p, err := r.Client(ctx, fmt.Sprintf("sleeper-%d", i))
		if err != nil {
			return err
		}
		if err := p.Send(ctx, pickledGraph("s", "__import__('time').sleep(600)")); err != nil {
			return err
		}
		p.Comm.Abort()
	}
	p, err := r.Client(ctx, "awake")
	if err != nil {
		return err
	}
	if err := p.Send(ctx, pickledGraph("x", "1/0")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := p.Expect(ctx, "task-erred")
	if err != nil {
		return fmt.Errorf("a graph after %d graphs that sleep: %w", sleepers, err)
	}
	if m.GetString("key") != "x" {
		return fmt.Errorf("a graph after graphs that sleep: got %v, want an error of x", m)
	}
	return nil
}

// attackResources has graphs take all memory and all processes that their helper may have. The limits are the
// helper's: each graph fails by itself.
func (r *Rig) attackResources(ctx context.Context) error {
	for name, expression := range map[string]string{
		"memory": "len(bytearray(1 << 40))",
		"processes": "[__import__('subprocess').Popen(['/bin/sleep', '60'], stdin=-3, stdout=-3, stderr=-3)" +
			" for i in range(100000)]",
	} {
		p, err := r.Client(ctx, "taker-"+name)
		if err != nil {
			return err
		}
		if err := p.Send(ctx, pickledGraph(name, expression)); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, patience)
		_, err = p.Expect(limited, "task-erred")
		cancel()
		if err != nil {
			return fmt.Errorf("a graph that takes all %s: %w", name, err)
		}
	}
	return nil
}

// pickledGraph is an update-graph whose graph evaluates an expression when Python opens it.
func pickledGraph(key, expression string) msgpack.Map {
	data := []byte("cbuiltins\neval\n(V" + expression + "\ntR.")
	header, err := msgpack.Append(nil, msgpack.MapOf("serializer", "pickle", "writeable", []any{}, "num-sub-frames", 1))
	if err != nil {
		panic(err) // constants
	}
	return msgpack.MapOf("op", "update-graph",
		"expr_ser", &wire.Serialized{Header: header, Frames: []wire.Frame{wire.HeapFrame(data)}},
		"keys", []any{key}, "internal_priority", nil, "submitting_task", nil, "fifo_timeout", "1s", "actors", false,
		"code", []any{}, "annotations", msgpack.Map{}, "span_metadata", msgpack.Map{})
}

// scrape reads /metrics.
func (r *Rig) scrape(ctx context.Context) error {
	status, body, err := r.Get(ctx, "/metrics")
	if err != nil || status != http.StatusOK || !strings.Contains(string(body), "dask_scheduler_tasks") {
		return fmt.Errorf("/metrics: got %d, %v, %.200s", status, err, body)
	}
	return nil
}
