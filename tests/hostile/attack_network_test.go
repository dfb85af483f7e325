package hostile

import (
	"bytes"
	"context"
	endian "encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

func init() {
	register(
		attack{name: "waiting requests", targets: onTCP | onTLS | journaled | plain, run: by((*Rig).attackWaiting)},
		attack{name: "dead waiters of a queue", targets: everywhere, run: by((*Rig).attackQueue)},
		attack{name: "decompression bombs", targets: everywhere, memory: 256 << 20, run: by((*Rig).attackBombs)},
		attack{name: "empty frames", targets: onTCP | onTLS | journaled | plain, memory: 64 << 20, named: true,
			run: by((*Rig).attackEmptyFrames)},
		attack{name: "announced frames", targets: onUCXX | plain | journaled, memory: 128 << 20,
			run: by((*Rig).attackAnnounced)},
		attack{name: "a worker's certificate", targets: onTLS | plain | journaled, named: true,
			run: by((*Rig).attackRoles)},
		attack{name: "idle connections", targets: onTCP | onTLS | journaled | plain, run: by((*Rig).attackIdle)},
		attack{name: "DNS rebinding", targets: onTCP | onTLS | journaled | plain, run: by((*Rig).attackHost)},
		attack{name: "forged log lines", targets: everywhere, named: true, run: by((*Rig).attackLog)},
	)
}

// by makes an attack of a method.
func by(f func(*Rig, context.Context) error) func(context.Context, *Rig) error {
	return func(ctx context.Context, r *Rig) error { return f(r, ctx) }
}

// start sends a request and does not wait for its answer.
func (r *Rig) start(ctx context.Context, op string, args ...any) (comm.Comm, error) {
	c, err := r.Dial(ctx, r.Scheduler.Address, secure.Client)
	if err != nil {
		return nil, err
	}
	return c, writeTo(ctx, c, append(msgpack.MapOf("op", op, "reply", true), msgpack.MapOf(args...)...))
}

// attackWaiting holds more waiting requests than handlers may run, then hangs up.
func (r *Rig) attackWaiting(ctx context.Context) error {
	n := 500
	if r.Full {
		n = 4100
	}
	comms := make([]comm.Comm, n)
	var errs firstError
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for i := part; i < n; i += 8 {
				var err error
				comms[i], err = r.start(ctx, []string{"event_wait", "variable_get", "multi_lock_acquire"}[i%3],
					waitArgs(i)...)
				errs.set(err)
			}
		})
	}
	wg.Wait()
	if errs.err != nil {
		return errs.err
	}
	if err := r.served(ctx); err != nil {
		return fmt.Errorf("while %d requests wait: %w", n, err)
	}
	for _, c := range comms {
		c.Abort()
	}
	return nil
}

func waitArgs(i int) []any {
	if i%3 == 2 {
		return []any{"locks", []any{"hostile"}, "id", fmt.Sprint("hostile-", i), "num_locks", 1}
	}
	return []any{"name", "hostile-never"}
}

// attackQueue lets clients wait for items and die; what is put then must be there.
func (r *Rig) attackQueue(ctx context.Context) error {
	if err := r.Call(ctx, r.Scheduler.Address, "queue_create", msgpack.MapOf("name", "hostile-queue"),
		nil); err != nil {
		return err
	}
	var dead []comm.Comm
	for range 3 {
		c, err := r.start(ctx, "queue_get", "name", "hostile-queue")
		if err != nil {
			return err
		}
		dead = append(dead, c)
	}
	for _, c := range dead {
		c.Abort()
	}
	size := func() (n int, err error) {
		err = r.Call(ctx, r.Scheduler.Address, "queue_qsize", msgpack.MapOf("name", "hostile-queue"), &n)
		return n, err
	}
	for i := range 5 {
		if err := r.Call(ctx, r.Scheduler.Address, "queue_put", msgpack.MapOf("name", "hostile-queue", "data", i),
			nil); err != nil {
			return err
		}
	}
	for ctx.Err() == nil { // a waiter that has not been noticed as dead yet gives its item back
		if n, err := size(); err != nil || n == 5 {
			return err
		}
	}
	n, err := size()
	return errors.Join(fmt.Errorf("%d items are in the queue, want 5", n), err)
}

// attackBombs sends compressed zeros where values pass through: in requests and on a stream.
func (r *Rig) attackBombs(ctx context.Context) error {
	size := 256 << 20
	if r.Full {
		size = 1 << 30
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	defer enc.Close()
	frame := enc.EncodeAll(make([]byte, size), nil)
	bomb := &wire.Pickled{Data: []byte("\x80\x05\x97."), Buffers: []wire.Frame{wire.HeapFrame(frame)},
		Compression: []string{"zstd"}}
	for range 4 {
		if err := r.Call(ctx, r.Scheduler.Address, "variable_set", msgpack.MapOf("name", "hostile-bomb", "data", bomb),
			nil); err != nil {
			return err
		}
		if err := r.Call(ctx, r.Scheduler.Address, "log_event", msgpack.MapOf("topic", "hostile-bomb", "msg", bomb),
			nil); err != nil {
			return err
		}
	}
	p, err := r.Client(ctx, "hostile-bomber")
	if err != nil {
		return err
	}
	if err := p.Send(ctx, msgpack.MapOf("op", "log-event", "topic", "hostile-bomb", "msg", bomb)); err != nil {
		return err
	}
	return p.Send(ctx, msgpack.MapOf("op", "variable_delete", "name", "hostile-bomb"))
}

// attackEmptyFrames announces a million empty frames after a good handshake.
func (r *Rig) attackEmptyFrames(ctx context.Context) error {
	c, err := r.RawTLS(ctx, r.Scheduler.Address, secure.Client)
	if err != nil {
		return err
	}
	u64 := func(b []byte, v ...uint64) []byte {
		for _, x := range v {
			b = endian.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	hello := handshake.Hello{PickleProtocol: 5, Python: []int{3, 11, 0}}.Append(nil)
	const n = 1 << 20
	b := append(u64(nil, uint64(16+len(hello)), 1, uint64(len(hello))), hello...)
	b = append(u64(b, 8*(1+n), n), make([]byte, 8*n)...)
	if _, err := c.Write(b); err != nil && !hungUp(err) {
		return err
	}
	// The scheduler hangs up; a comm that goes on would wait for the next message.
	_, err = bytes.NewBuffer(nil).ReadFrom(c)
	if err != nil && !hungUp(err) {
		return err
	}
	return nil
}

// hungUp reports whether an error is the end of a connection by its peer.
func hungUp(err error) bool {
	return strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "broken pipe") ||
		strings.Contains(err.Error(), "EOF")
}

// attackAnnounced promises frames over UCX that never come.
func (r *Rig) attackAnnounced(ctx context.Context) error {
	x, err := ucx.NewContext(ucx.Config{PlainTransports: true})
	if err != nil {
		return err
	}
	w, err := x.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		return errors.Join(err, x.Close())
	}
	r.AtEnd(func() { _, _ = w.Close(), x.Close() })
	_, loc := commaddr.Parse(r.Scheduler.Address)
	hello := handshake.Hello{PickleProtocol: 5, Python: []int{3, 11, 0}}.Append(nil)
	for _, size := range []uint64{60 << 30, 1 << 62} {
		ep, err := w.DialUCXX(ctx, loc)
		if err != nil {
			return err
		}
		for _, part := range [][]byte{lead(1), table(uint64(len(hello))), hello, lead(1), table(size)} {
			if err := ep.Send(ctx, ucx.Bytes(part), ucx.DefaultTag); err != nil {
				return err
			}
		}
		select {
		case <-ep.Done(): // too much for any machine that this runs on
		case <-ctx.Done():
			return fmt.Errorf("a frame of %d bytes is awaited: %w", size, ctx.Err())
		}
	}
	return nil
}

// lead and table are what distributed-ucxx sends in front of the frames of a message.
func lead(n uint64) []byte { return endian.NativeEndian.AppendUint64(make([]byte, 8), n) }

func table(size uint64) []byte { return endian.NativeEndian.AppendUint64(make([]byte, 8), size) }

// attackRoles directs the cluster with the certificate of a worker.
func (r *Rig) attackRoles(ctx context.Context) error {
	for op, args := range map[string]msgpack.Map{
		"terminate": nil, "restart": nil, "run_function": nil,
		"broadcast":      msgpack.MapOf("msg", msgpack.MapOf("op", "terminate")),
		"retire_workers": msgpack.MapOf("n", 2), "register_worker_plugin": nil, "get_logs": nil,
		"proxy": msgpack.MapOf("worker", r.Worker.Address, "msg", msgpack.MapOf("op", "terminate")),
	} {
		c, err := r.Dial(ctx, r.Scheduler.Address, secure.Worker)
		if err != nil {
			return err
		}
		err = rpc.Call(ctx, c, op, args, nil)
		if err := Refused(err); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		if !errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), "PermissionError") {
			return fmt.Errorf("%s: got %w, want a PermissionError", op, err)
		}
	}
	c, err := r.Dial(ctx, r.Nanny.Address, secure.Worker)
	if err != nil {
		return err
	}
	if err := Refused(rpc.Call(ctx, c, "terminate", nil, nil)); err != nil {
		return fmt.Errorf("terminate of a nanny: %w", err)
	}
	// A worker's process does not pass for a scheduler.
	dial, err := r.dialConfig(secure.Client)
	if err != nil {
		return err
	}
	if c, err := comm.Default.Dial(ctx, r.Worker.Address, dial.To(secure.Scheduler)); err == nil {
		c.Abort()
		return errors.New("a worker's certificate passes for a scheduler's")
	}
	return nil
}

// attackIdle opens many connections and says nothing on them.
func (r *Rig) attackIdle(ctx context.Context) error {
	n := 400
	if r.Full {
		n = 3000
	}
	for range n {
		if _, err := r.Dial(ctx, r.Scheduler.Address, secure.Client); err != nil {
			return err
		}
	}
	return r.served(ctx)
}

// attackHost asks the dashboard under the name of a page of the Internet.
func (r *Rig) attackHost(ctx context.Context) error {
	for host, want := range map[string]int{"evil.example": http.StatusForbidden, "": http.StatusOK} {
		for _, path := range []string{"/", "/json/identity.json", "/metrics"} {
			q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.Scheduler.HTTP, "/")+path,
				nil)
			if err != nil {
				return err
			}
			q.Host, q.Close = host, true
			a, err := http.DefaultClient.Do(q)
			if err != nil {
				return err
			}
			_ = a.Body.Close()
			if a.StatusCode != want {
				return fmt.Errorf("%s with Host %q: status %d, want %d", path, host, a.StatusCode, want)
			}
		}
	}
	return nil
}

// attackLog puts line breaks and escapes of terminals into the log.
func (r *Rig) attackLog(ctx context.Context) error {
	if _, err := r.Client(ctx, "hostile-log\nlevel=ERROR msg=forged\x1b[2J"); err != nil {
		return err
	}
	r.Attacker("hostile-log")
	var lines []any
	if err := r.Call(ctx, r.Scheduler.Address, "get_logs", nil, &lines); err != nil {
		return err
	}
	for _, l := range lines {
		pair, ok := l.([]any)
		if !ok || len(pair) != 2 {
			return fmt.Errorf("get_logs: got %v, want pairs of level and text", l)
		}
		if text, _ := pair[1].(string); strings.ContainsAny(text, "\n\r\x1b") {
			return fmt.Errorf("get_logs has the line %q, want no control characters", text)
		}
	}
	return nil
}
