package cluster_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/testkit/leak"
)

// around is the environment of a task: visible GPUs, and the processors of all threads.
type around struct {
	Visible string
	CPUs    []string
	Warm    int
}

var (
	warmed = 0
	_      = client.Func0("cluster_test.warming", func(context.Context) (int, error) { warmed++; return warmed, nil })
	look   = client.Func("cluster_test.around", func(context.Context, int) (around, error) {
		a := around{Visible: os.Getenv("CUDA_VISIBLE_DEVICES"), Warm: warmed}
		tasks, err := os.ReadDir("/proc/self/task")
		for _, t := range tasks {
			text, err := os.ReadFile("/proc/self/task/" + t.Name() + "/status")
			if err != nil {
				continue // it has ended
			}
			_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:")
			list, _, _ := strings.Cut(rest, "\n")
			if list = strings.TrimSpace(list); !slices.Contains(a.CPUs, list) {
				a.CPUs = append(a.CPUs, list)
			}
		}
		return a, err
	})
)

// The workers of a plan run as planned: names, environment, processors, warm-up. The GPU of a retired worker is used by
// the next one, and there are no more workers than GPUs.
func TestStartPlan(t *testing.T) {
	for _, protocol := range []string{"", "ucxx"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			leak.Check(t)
			ctx := within(t, 2*time.Minute)
			cpu := cluster.AllowedCPU(t)
			plan := &cluster.CUDAPlan{Workers: []cluster.CUDAWorker{
				{Name: "a", Env: []string{"CUDA_VISIBLE_DEVICES=0,1"}, Threads: 1, CPUs: cpu,
					WarmUp: []string{"cluster_test.warming"}},
				{Name: "b", Env: []string{"CUDA_VISIBLE_DEVICES=1,0"}, Threads: 1, CPUs: cpu,
					UCX: ucxcomm.Settings{Options: map[string]string{"TLS": "^cuda_ipc,ib"}}},
			}}
			c, err := cluster.StartPlan(ctx, plan, cluster.CUDAConfig{Protocol: protocol},
				cluster.Config{Validate: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cl, err := c.Client(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			check := func() {
				t.Helper()
				for _, w := range c.Workers() {
					got, err := look.Submit(ctx, cl, client.Val(w.PID), client.WithWorkers(w.Address),
						client.WithImpure()).Result(ctx)
					want := map[string]around{"a": {"0,1", []string{cpu}, 1}, "b": {"1,0", []string{cpu}, 0}}[w.Name]
					if err != nil || got.Visible != want.Visible || !slices.Equal(got.CPUs, want.CPUs) ||
						got.Warm != want.Warm {
						t.Errorf("worker %s: %+v, %v", w.Name, got, err)
					}
				}
			}
			check()
			if protocol != "" {
				return
			}
			if err := c.Scale(ctx, 3); err == nil || !strings.Contains(err.Error(),
				"3 workers for 2 listed GPUs") {
				t.Errorf("Scale(3): got %v, want an error about the listed GPUs", err)
			}
			if err := c.Scale(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if err := c.Scale(ctx, 2); err != nil {
				t.Fatal(err)
			}
			check()
		})
	}
}

func TestStartPlanRefusals(t *testing.T) {
	plan := &cluster.CUDAPlan{Workers: []cluster.CUDAWorker{{Name: "a", Threads: 1}}}
	for _, c := range []struct {
		gpus cluster.CUDAConfig
		opts cluster.Config
		want string
	}{
		{cluster.CUDAConfig{}, cluster.Config{Threads: 2}, "do not set them in Config"},
		{cluster.CUDAConfig{}, cluster.Config{Mode: cluster.Goroutines}, "do not set Mode"},
		{cluster.CUDAConfig{Interface: "lo"}, cluster.Config{Host: "127.0.0.1"}, "host (127.0.0.1) and " +
			"interface (lo) exclude each other"},
		{cluster.CUDAConfig{Interface: "ib0"}, cluster.Config{}, "ib0"},
	} {
		if _, err := cluster.StartPlan(t.Context(), plan, c.gpus, c.opts); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.opts, err, c.want)
		}
	}
	bad := &cluster.CUDAPlan{Workers: []cluster.CUDAWorker{{Name: "a", Threads: 1,
		WarmUp: []string{"cluster_test.nothing"}}}}
	_, err := cluster.StartPlan(within(t, time.Minute), bad, cluster.CUDAConfig{UCX: config.UCX{}},
		cluster.Config{Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), `warm-up "cluster_test.nothing": no function with this name`) {
		t.Error(err)
	}
}
