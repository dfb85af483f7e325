package scheduler

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// childVariable makes the test binary a separate scheduler, so that its CPU time can be measured without that of its
// peers. Its value is the directory of the journal, or "-" for none.
const childVariable = "MILLSTREAM_TEST_SCHEDULER"

// childScheduler runs until its input ends.
func childScheduler(journal string) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	cfg := Config{Listen: []string{"tcp://127.0.0.1:0"}}
	if journal != "-" {
		cfg.Journal = journal
	}
	s, err := Start(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Address())
	if stop := startProfile(); stop != nil {
		defer stop()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = s.Close()
}

type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func startChild(b testing.TB, journal string) *child {
	b.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"="+journal)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	c := &child{cmd, in, strings.TrimSpace(line)}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return c
}

// cpu returns the CPU time of the child in seconds.
func (c *child) cpu(b testing.TB) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100
}

// memory returns the child's largest resident set in bytes.
func (c *child) memory(b testing.TB) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024
		}
	}
	return 0
}

// zeroWorker finishes every task immediately.
func zeroWorker(b testing.TB, addr string, n int) {
	b.Helper()
	c, err := comm.Default.Dial(b.Context(), addr, comm.DialConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Abort)
	m := msgpack.MapOf("address", fmt.Sprintf("tcp://127.0.0.1:%d", 1000+n), "status", "running", "nthreads", 1,
		"name", n, "now", 0.0,
		"resources", msgpack.Map{}, "memory_limit", 1<<40, "local_directory", "", "services", msgpack.Map{}, "nanny",
		nil, "pid", 1,
		"versions", msgpack.Map{}, "metrics", msgpack.Map{}, "extra",
		msgpack.MapOf("millstream", msgpack.MapOf("registry", task.Hash())), "stimulus_id", "", "server_id",
		fmt.Sprint(n))
	if err := rpc.Notify(b.Context(), c, "register-worker", m); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Read(b.Context()); err != nil {
		b.Fatal(err)
	}
	done := message.TaskFinished{StimulusID: "task-finished-1763256000.123", Status: "OK", NBytes: 28, TypeName: "str",
		Metadata: message.EmptyMap, Thread: 1, StartStops: message.StartStops{Parts: []message.Part{
			{Action: "compute", Start: 1763256000.1, Stop: 1763256000.10001}}}}
	go func() {
		var t message.ComputeTask
		for {
			m, err := c.Read(context.Background())
			if err != nil {
				return
			}
			batch := rpc.NewBatch(1 << 10)
			n := 0
			ops := message.ReadOps(m.Body())
			for ops.Next() {
				if string(ops.Op()) != "compute-task" {
					continue
				}
				if t.Read(&ops) != nil {
					return
				}
				done.Key, done.RunID = t.Key, t.RunID
				batch.Begin()
				done.Append(&batch.Buffer)
				n++
			}
			m.Release()
			if n > 0 && c.Write(context.Background(), batch.Message()) != nil {
				return
			}
		}
	}()
}

func benchScheduler(b *testing.B, journal string) {
	sched := startChild(b, journal)
	for i := range 2 {
		zeroWorker(b, sched.addr, i)
	}
	c, err := comm.Default.Dial(b.Context(), sched.addr, comm.DialConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Abort)
	if err := rpc.Notify(b.Context(), c, "register-client",
		msgpack.MapOf("client", "bench", "versions", msgpack.Map{})); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Read(b.Context()); err != nil {
		b.Fatal(err)
	}
	spec := []byte(strings.Repeat("s", 40))
	const graph = 10_000
	before := sched.cpu(b)
	began := time.Now()
	b.ResetTimer()
	for sent := 0; sent < b.N; sent += graph {
		n := min(graph, b.N-sent)
		var w taskgraph.Writer
		keys := make([]any, n)
		for i := range n {
			k := task.NewKey(fmt.Sprintf("inc-%08x%08d", b.N, sent+i))
			keys[i] = k.Raw()
			w.Spec(k, spec, nil, taskgraph.None, int64(sent+i)) // one Map, sent in pieces
		}
		m, err := wire.Encode(msgpack.MapOf("op", "update-graph", "expr_ser", w.Serialized(), "keys", keys,
			"fifo_timeout", "100 ms"), wire.EncodeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Write(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	for done := 0; done < b.N; {
		m, err := c.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		ops := message.ReadOps(m.Body())
		for ops.Next() {
			if string(ops.Op()) == "key-in-memory" {
				done++
			}
		}
		m.Release()
	}
	b.StopTimer()
	used := sched.cpu(b) - before
	b.ReportMetric(used*1e6/float64(b.N), "scheduler-cpu-µs/task")
	b.ReportMetric(sched.memory(b)/float64(b.N), "scheduler-B/task")
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "tasks/s")
}

// The scheduler only: tasks from a client over TCP, finished immediately by workers over TCP.
func BenchmarkSchedulerAlone(b *testing.B) { benchScheduler(b, "-") }

// The same with a journal.
func BenchmarkSchedulerJournal(b *testing.B) { benchScheduler(b, b.TempDir()) }

// startProfile writes the child's CPU profile to the file MILLSTREAM_TEST_PROFILE.
func startProfile() (stop func()) {
	name := os.Getenv("MILLSTREAM_TEST_PROFILE")
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
		if f, err := os.Create(name + ".allocs"); err == nil {
			_ = pprof.Lookup("allocs").WriteTo(f, 0)
			_ = f.Close()
		}
	}
}
