package cluster_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
)

// A worker in a child process, for a scheduler that this program did not start. The program calls Main first.
func ExampleStartNanny() {
	ctx := context.Background()
	log := slog.New(slog.DiscardHandler)
	s := of(scheduler.Start(ctx, scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}, Logger: log}))
	defer s.Close()
	n := of(cluster.StartNanny(cluster.WorkerSpec{Scheduler: s.Address(), Name: "alice", Threads: 1},
		cluster.NannyConfig{Logger: log}))
	orPanic(n.Ready(ctx))
	fmt.Println(n.Info().Name, n.Info().State)

	c := of(client.Connect(ctx, s.Address(), client.Config{Logger: log}))
	defer c.Close()
	fmt.Println(double.Submit(ctx, c, client.Val(3)).Result(ctx))

	orPanic(n.Shutdown(ctx)) // kills the process if ctx ends first; Close after ten seconds
	<-n.Done()
	fmt.Println(n.Info().State, n.Err())
	// Output:
	// alice running
	// 6 <nil>
	// closed <nil>
}

// A nanny replaces the process of its worker.
func ExampleNanny_Restart() {
	ctx := context.Background()
	log := slog.New(slog.DiscardHandler)
	s := of(scheduler.Start(ctx, scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}, Logger: log}))
	defer s.Close()
	n := of(cluster.StartNanny(cluster.WorkerSpec{Scheduler: s.Address(), Threads: 1},
		cluster.NannyConfig{Logger: log, Stdout: cluster.SharedWriter(io.Discard)}))
	orPanic(n.Ready(ctx))
	first := n.Info().PID

	orPanic(n.Kill(ctx)) // returns when the process has ended
	orPanic(n.Ready(ctx))
	second := n.Info().PID
	orPanic(n.Restart(ctx)) // Kill and Ready
	fmt.Println(first != second, second != n.Info().PID, n.Info().Starts)

	orPanic(n.Retire(ctx)) // its data moves to other workers first
	fmt.Println(n.Info().State)
	orPanic(n.Close()) // may be called more than once
	// Output:
	// true true 3
	// closed
}

// The process becomes a worker until the scheduler or ctx ends it. Programs with other purposes use StartNanny or
// worker.Start.
func ExampleRunWorker() {
	ctx := context.Background()
	spec := cluster.WorkerSpec{Scheduler: "tcp://10.0.0.1:8786", Threads: 4}
	err := cluster.RunWorker(ctx, spec, slog.Default(), nil, func(w cluster.WorkerInfo) {
		fmt.Println("registered as", w.Address)
	})
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleLogSpec_New() {
	var out strings.Builder // os.Stderr in most programs
	log := of(cluster.LogSpec{Format: "json", Level: "warning"}.New(&out))
	log.Info("not of interest")
	log.Warn("worker lost", "worker", "alice")
	_, text, _ := strings.Cut(out.String(), `,"level"`) // after the time
	fmt.Print(text)
	// Output: :"WARN","msg":"worker lost","worker":"alice"}
}

func ExampleNewSchedulerFileTLS() {
	t := cluster.NewSchedulerFileTLS("/etc/certs", secure.Security{CAFile: "/etc/certs/ca.pem"})
	fmt.Println(t.Dir, t.CAFile)
	fmt.Println(cluster.NewSchedulerFileTLS("", secure.Security{}) == nil)
	// Output:
	// /etc/certs /etc/certs/ca.pem
	// true
}

// Without rmm.pool-size, or without a GPU, a scheduler has no pool.
func ExampleSchedulerPool() {
	c := of(config.Load(config.Options{Paths: []string{}, Env: []string{}}))
	settings := of(c.Settings(config.Overrides{}))
	pool, closePool := cluster.SchedulerPool(settings, slog.Default())
	defer closePool()
	fmt.Println(pool == nil)
	// Output: true
}

// A cluster with one worker process for each GPU.
func ExampleLocalCUDA() {
	ctx := context.Background()
	c, err := cluster.LocalCUDA(ctx, cluster.CUDAConfig{RMM: cluster.RMMConfig{PoolSize: "80%"}}, cluster.Config{})
	if err != nil {
		fmt.Println(err) // without a CUDA driver: what is missing
		return
	}
	defer c.Close()
	fmt.Println(len(c.Workers()), "GPUs")
}

// The configuration is checked without a GPU.
func ExampleCUDAConfig_Check() {
	o := cluster.CUDAConfig{RMM: cluster.RMMConfig{PoolSize: "much"}}
	fmt.Println(o.Check() != nil)
	o.RMM.PoolSize = "10GB"
	fmt.Println(o.Check())
	// Output:
	// true
	// <nil>
}

// The workers that LocalCUDA would start on this machine, with their processors, GPUs and network devices.
func ExampleCUDAConfig_Plan() {
	machine, err := cluster.ThisCUDAMachine()
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := cluster.CUDAConfig{Devices: []string{"0", "1"}}.Plan(machine)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(os.Stderr, plan)
	for _, w := range plan.Workers {
		spec := w.Spec(cluster.WorkerSpec{Scheduler: "tls://10.0.0.1:8786"})
		fmt.Println(spec.Name, spec.CPUs)
	}
}
