package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/cli"
	"go.millstream.dev/client"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/task"
)

// commandVariable makes the test binary the millstream command.
const commandVariable = "GPUTEST_MILLSTREAM"

func init() {
	if os.Getenv(commandVariable) == "" {
		return
	}
	_ = os.Unsetenv(commandVariable) // what it starts itself are workers
	os.Exit(cli.Main())
}

// commandLog is what a process has written to standard error.
type commandLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *commandLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *commandLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startCommand runs millstream with an environment until it has said the lines that begin so, and returns their rests.
// It ends with the test.
func startCommand(t *testing.T, env []string, args []string, lines ...string) (said []string, log *commandLog) {
	t.Helper()
	log = new(commandLog)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), commandVariable+"=1"), env...)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := make(chan struct{})
	t.Cleanup(func() {
		if t.Failed() { // where it and its worker hang
			for _, pid := range append(childrenOf(cmd.Process.Pid), cmd.Process.Pid) {
				_ = syscall.Kill(pid, syscall.SIGQUIT)
			}
		} else {
			_ = cmd.Process.Signal(os.Interrupt)
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("log of %q:\n%.30000s", args, log)
		}
	})
	text := make(chan string, 100)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case text <- s.Text():
			default:
			}
		}
		_ = cmd.Wait()
		close(ended)
	}()
	said = make([]string, len(lines))
	for deadline := time.After(patience / 2); slices.Contains(said, ""); {
		select {
		case line := <-text:
			for i, want := range lines {
				if rest, ok := strings.CutPrefix(line, want); ok {
					said[i] = rest
				}
			}
		case <-ended:
			t.Fatalf("millstream %q has ended:\n%s", args, log)
		case <-deadline:
			t.Fatalf("millstream %q has not said %q:\n%s", args, lines, log)
		}
	}
	return said, log
}

// childrenOf are the processes that a process has started.
func childrenOf(pid int) (list []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			list = append(list, child)
		}
	}
	return list
}

// TestGPUMemoryApart starts scheduler, worker and client apart, with the pool of the environment. A scheduler without a
// GPU says that it ignores it, one with a GPU shows it in its metrics, and device results that are gathered through
// each arrive whole.
func TestGPUMemoryApart(t *testing.T) {
	requireGPU(t)
	d, err := cuda.DeviceByOrdinal(0)
	must(t, err)
	const pool = "DASK_RMM__POOL_SIZE=256MiB"
	for _, c := range []struct {
		name, protocol string
		env            []string
		pool, ignored  bool
	}{
		{"with a pool", "ucxx", []string{pool}, true, false},
		{"without a pool", "ucxx", nil, false, false},
		{"without a GPU", "ucxx", []string{pool, "CUDA_VISIBLE_DEVICES="}, false, true},
		{"without UCX or a GPU", "tcp", []string{pool, "CUDA_VISIBLE_DEVICES="}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(testContext(t), 20*time.Second)
			defer cancel()
			said, log := startCommand(t, c.env, []string{"scheduler", "--protocol", c.protocol, "--host", "127.0.0.1",
				"--port", "0", "--dashboard-address", "127.0.0.1:0"}, "scheduler at ", "dashboard at http://")
			address := said[0]
			got := metricsOf(t, ctx, strings.TrimSuffix(said[1], "/"))[deviceMetric(d.UUID, "pool")]
			ignored := strings.Count(log.String(), `"rmm.pool-size ignored" bytes=268435456 `+
				"source=DASK_RMM__POOL_SIZE ")
			if (got == 256<<20) != c.pool || (ignored == 1) != c.ignored || got != 0 && !c.pool || ignored > 1 {
				t.Errorf("the scheduler's pool has %.0f bytes, and its log says\n%s", got, log)
			}
			startCommand(t, []string{pool}, []string{"cuda-worker", address, "--devices", "0", "--no-python",
				"--dashboard-address", "127.0.0.1:0"}, "worker at ")
			cl, err := client.Connect(ctx, address, client.Config{NoDirect: true})
			must(t, err)
			defer cl.Close()
			for _, n := range []int64{1, 1000, 9000, 64 << 20} {
				start := time.Now()
				x := memoryFill.Submit(ctx, cl, client.Val(n), client.Val[int64](33), client.WithImpure())
				a, err := x.Result(ctx)
				if err != nil {
					t.Fatalf("%d bytes: %v", n, err)
				}
				t.Logf("%d bytes through the scheduler in %v", n, time.Since(start))
				if a.Frame.OnDevice() || int64(a.Frame.Len()) != n ||
					bytes.Count(a.Frame.Bytes(), []byte{33}) != int(n) {
					t.Errorf("%d bytes came as %d, on the device: %v", n, a.Frame.Len(), a.Frame.OnDevice())
				}
				task.Release(a)
				x.Release()
			}
		})
	}
}
