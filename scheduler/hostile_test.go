package scheduler

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// logText is the log of the scheduler.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (s *logText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *logText) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.buf.String(), text)
}

// hostile starts a scheduler with a client and a worker, which must not be affected.
func hostile(t *testing.T) (*Scheduler, *logText, func()) {
	t.Helper()
	log := &logText{}
	s := start(t, Config{Validate: true, Logger: slog.New(slog.NewTextHandler(log, nil)), flood: 50})
	join(t, s, "honest")
	c := connect(t, s, "honest")
	n := 0
	return s, log, func() {
		t.Helper()
		n++
		key := fmt.Sprintf("honest-%d", n)
		c.submit([]node{{key: key, spec: "x", notes: &taskgraph.Annotations{Workers: []string{"honest"}}}})
		c.expectKey("key-in-memory", key)
		if got := c.gather(key); got[key] != "x" {
			t.Errorf("result of the other client: got %v, want x", got)
		}
	}
}

// dialRaw opens a plain connection.
func dialRaw(t *testing.T, s *Scheduler) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Address(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Bytes that are not a handshake, or announce more than they have, close their connection only.
func TestHostileHandshakes(t *testing.T) {
	s, log, honest := hostile(t)
	u64 := func(v ...uint64) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	text := func(body string) []byte { return append(u64(uint64(16+len(body)), 1, uint64(len(body))), body...) }
	for name, data := range map[string][]byte{
		"http":             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zeroes":           make([]byte, 4096),
		"absurd length":    u64(1<<62, 1, 1<<60),
		"absurd frames":    u64(24, 1<<61, 1),
		"no map":           text("\x93\x01\x02\x03"),
		"no protocol":      text("\x80"),
		"wrong protocol":   text("\x81\xafpickle-protocol\xa3abc"),
		"truncated":        text("\xde\xff\xff"),
		"nothing at all":   nil,
		"nested too deep":  text(strings.Repeat("\x91", 100_000)),
		"garbage in a map": text("\x82\xc1\xc1"),
	} {
		c := dialRaw(t, s)
		if _, err := c.Write(data); err != nil && !isReset(err) {
			t.Errorf("%s: write: got error %v, want none", name, err)
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, c) // until the scheduler closes the connection
		_ = c.Close()
		if data != nil {
			until(t, name+" is named in the log", func() bool { return log.has(c.LocalAddr().String()) })
		}
	}
	honest()
}

func isReset(err error) bool {
	return strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "broken pipe")
}

// Invalid messages on the stream of a client close its stream and are logged.
func TestHostileClient(t *testing.T) {
	s, log, honest := hostile(t)
	bad := func(m ...any) {
		t.Helper()
		c := connect(t, s, "bad")
		c.send(m...)
		c.waitClosed()
		addr := c.comm.LocalAddr()
		if !log.has(addr) && !log.has("client=bad") {
			t.Errorf("log: got no line with %s", addr)
		}
	}
	bad(msgpack.MapOf("op", "no-such-op"))
	bad(msgpack.MapOf("op", "client-desires-keys", "keys", 7))
	bad(msgpack.MapOf("op", "update-graph", "keys", "x"))
	bad(msgpack.MapOf("op", "report-key"))
	bad(msgpack.MapOf("op", "cancel-keys", "keys", []any{msgpack.MapOf("a", 1)}))
	bad("just words")
	bad(msgpack.MapOf("op", "task-finished", "key", "x", "run_id", 1))
	honest()
	// A graph that is not a pickle, or a truncated one, fails its keys and nothing else.
	c := connect(t, s, "broken-graphs")
	for i, data := range [][]byte{nil, {0x80}, []byte("\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7f"),
		[]byte("(((((((((("), bytes.Repeat([]byte{'('}, 1<<20)} {
		header, err := msgpack.Append(nil, msgpack.MapOf("serializer", "pickle", "writeable", []any{},
			"num-sub-frames", 1))
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("broken-%d", i)
		c.send(msgpack.MapOf("op", "update-graph", "expr_ser",
			&wire.Serialized{Header: header, Frames: []wire.Frame{wire.HeapFrame(data)}}, "keys", names(key),
			"internal_priority", nil, "submitting_task", nil, "fifo_timeout", "1s", "actors", false, "code", []any{},
			"annotations", msgpack.Map{},
			"span_metadata", msgpack.Map{}))
		c.expectKey("task-erred", key)
	}
	honest()
}

// A client that sends too many messages is slowed down, the others are not.
func TestHostileFlood(t *testing.T) {
	s, log, honest := hostile(t)
	c := connect(t, s, "flood")
	stop := make(chan struct{})
	done := make(chan struct{})
	m, err := wire.Encode([]any{msgpack.MapOf("op", "client-desires-keys", "keys", names("a", "b", "c"), "client",
		"flood")}, c.comm.Info().EncodeOptions())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c.comm.Write(t.Context(), m) != nil {
				return
			}
		}
	}()
	for range 5 {
		honest()
	}
	until(t, "the log names the client", func() bool { return log.has("client=flood peer=" + c.comm.LocalAddr()) })
	close(stop)
	<-done
	// Unknown requests and requests with unknown arguments are answered.
	for _, op := range []string{"gather", "scatter", "who_has", "broadcast", "replicate", "shuffle_get_or_create",
		"run_function", "register_worker_plugin", "publish_put"} {
		if _, err := c.try(op, "nonsense", strings.Repeat("x", 1000)); err == nil {
			t.Errorf("%s with an unknown argument: got no error", op)
		}
	}
	honest()
}

// A worker that sends false reports changes nothing that others did.
func TestHostileWorker(t *testing.T) {
	s, log, honest := hostile(t)
	w := idle(t, s, "liar")
	c := connect(t, s, "c")
	c.submit([]node{{key: "x", spec: "hang"}})
	until(t, "x runs", func() bool {
		return fmt.Sprint(list(c.call("processing"), w.address)) == "[x]" ||
			strings.Contains(fmt.Sprint(c.call("processing")), "x")
	})
	w.send(
		// Runs that were not assigned to it, data that was not sent to it, unknown tasks.
		msgpack.MapOf("op", "task-finished", "key", "x", "run_id", 1<<40, "status", "OK", "nbytes", -5, "typename",
			"str", "stimulus_id", "x"),
		msgpack.MapOf("op", "task-finished", "key", "unknown", "run_id", 1, "status", "OK", "nbytes", 1<<62,
			"typename", strings.Repeat("t", 1<<16), "stimulus_id", "x"),
		msgpack.MapOf("op", "task-erred", "key", "unknown", "run_id", 1, "exception", pickledNone(), "traceback", nil,
			"stimulus_id", "x"),
		msgpack.MapOf("op", "add-keys", "keys", names("x", "nothing"), "stimulus_id", "x"),
		msgpack.MapOf("op", "release-worker-data", "key", "nothing", "stimulus_id", "x"),
		msgpack.MapOf("op", "long-running", "key", "x", "run_id", 77, "compute_duration", -1e300, "stimulus_id", "x"),
		msgpack.MapOf("op", "reschedule", "key", "nothing", "stimulus_id", "x"),
		msgpack.MapOf("op", "request-refresh-who-has", "keys", names("nothing"), "stimulus_id", "x"),
	)
	honest()
	for i, m := range []msgpack.Map{
		msgpack.MapOf("op", "steal-response", "key", "x", "state", "ready", "stimulus_id", "none of yours"),
		msgpack.MapOf("op", "worker-status-change", "status", "drunk", "stimulus_id", "x"),
		msgpack.MapOf("op", "task-finished"),
		msgpack.MapOf("op", "update-graph"),
	} {
		w := idle(t, s, fmt.Sprintf("liar-%d", i))
		w.send(m)
		w.waitClosed()
		if !log.has(w.address) {
			t.Errorf("log: got no line with %s", w.address)
		}
	}
	honest()
}

// Invalid registrations are rejected and logged.
func TestHostileRegistrations(t *testing.T) {
	s, log, honest := hostile(t)
	for i, o := range []option{
		with("nthreads", -1), with("nthreads", "many"), with("address", "nonsense"), with("memory_limit", "all"),
		with("resources", msgpack.MapOf("GPU", "x")),
		with("status", "drunk"), with("name", msgpack.MapOf("a", 1)),
	} {
		w := serveWorker(t, s, fmt.Sprintf("bad-%d", i))
		if r := w.register(o); r.GetString("status") == "OK" {
			t.Errorf("registration %d: got %v, want an error", i, r)
		}
	}
	if !log.has("worker rejected") {
		t.Error("log: got no line about the rejected worker")
	}
	c, err := comm.Default.Dial(t.Context(), s.Address(), comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	if err := rpc.Notify(t.Context(), c, "register-client", msgpack.MapOf("client", 7)); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Read(t.Context()); err == nil {
		m.Release()
	}
	honest()
}
