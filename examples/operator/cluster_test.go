//go:build examples

package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/cli"
)

func TestMain(m *testing.M) {
	millstream.Main()
	cli.Serve()
	os.Exit(m.Run())
}

// expand replaces $(NAME) in the arguments of a container, as Kubernetes does.
func expand(args []string, env map[string]string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = regexp.MustCompile(`\$\(\w+\)`).ReplaceAllStringFunc(arg, func(name string) string {
			return env[name[2:len(name)-1]]
		})
	}
	return out
}

// start starts the command of a container and returns a function that stops it, as Kubernetes does. It ends with the
// test.
func start(ctx context.Context, t *testing.T, args []string, env map[string]string) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], expand(args, env)...)
	cmd.Env = os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 30*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		if t.Failed() {
			t.Logf("%q: %v\n%s", cmd.Args[1:], err, log.String())
		}
	})
	t.Cleanup(stop)
	return stop
}

// TestCluster starts the containers of the manifest as processes, with the variables of the operator and on ports of
// the loopback interface, and makes the calls of the operator.
func TestCluster(t *testing.T) {
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PYTHON is not set: run the test with scripts/in-env")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel) // after the processes have ended
	cluster := manifest(t)["DaskCluster"]
	file := filepath.Join(t.TempDir(), "scheduler.json")
	args := slices.Clone(cluster.Spec.Scheduler.Spec.Containers[0].Args)
	if i := slices.Index(args, "0.0.0.0"); i >= 0 {
		args[i] = "127.0.0.1"
	}
	start(ctx, t, append(args, "--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", file), nil)
	var scheduler struct {
		Address  string
		Services map[string]int
	}
	for scheduler.Address == "" {
		if text, err := os.ReadFile(file); err == nil {
			_ = json.Unmarshal(text, &scheduler)
		}
		if ctx.Err() != nil {
			t.Fatal("the scheduler wrote no file")
		}
		time.Sleep(5 * time.Millisecond)
	}
	probe := cluster.Spec.Scheduler.Spec.Containers[0].ReadinessProbe.HTTPGet.Path
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", scheduler.Services["dashboard"], probe))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: got %s", probe, response.Status)
	}
	stops := map[string]func(){}
	for i := range cluster.Spec.Worker.Replicas {
		name := fmt.Sprintf("%s-default-worker-%d", cluster.Metadata.Name, i)
		stops[name] = start(ctx, t, append(cluster.Spec.Worker.Spec.Containers[0].Args, "--host", "127.0.0.1"),
			map[string]string{"DASK_WORKER_NAME": name, "DASK_SCHEDULER_ADDRESS": scheduler.Address})
	}
	// A scale to one worker less: the operator retires one and removes its pod.
	got := calls(ctx, t, python, scheduler.Address, "scale", len(stops))
	if len(got.Closing) != 1 || stops[got.Closing[0]] == nil || got.Target < 0 {
		t.Fatalf("got %+v, want one of the workers", got)
	}
	stops[got.Closing[0]]()
	delete(stops, got.Closing[0])
	got = calls(ctx, t, python, scheduler.Address, "check", len(stops))
	if len(got.Left) != 1 || stops[got.Left[0]] == nil || got.Total != 328350 {
		t.Errorf("got %+v, want the other worker and the sum 328350", got)
	}
}

// answer is the output of calls.py.
type answer struct {
	Target, Total int
	Closing, Left []string
}

func calls(ctx context.Context, t *testing.T, python, address, call string, workers int) (got answer) {
	t.Helper()
	cmd := exec.CommandContext(ctx, python, "calls.py", address, call, strconv.Itoa(workers))
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("calls.py %s: %v: %s\n%s", call, err, out, log.String())
	}
	return got
}
