package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"

	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler"
)

// A scheduler in this process, and a request to it.
func ExampleStart() {
	ctx := context.Background()
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"inproc://"},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	defer pool.Close()
	var set bool
	_ = pool.Call(ctx, s.Address(), "event_set", msgpack.MapOf("name", "ready"), nil)
	if err := pool.Call(ctx, s.Address(), "event_is_set", msgpack.MapOf("name", "ready"), &set); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the event is set:", set)
	// Output: the event is set: true
}

// The settings of Dask specify how long a worker may send no heartbeat.
func ExampleFromConfig() {
	c, err := config.Load(config.Options{Env: []string{"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=30s"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := scheduler.FromConfig(c)
	fmt.Println(cfg.WorkerTTL, err)
	// Output: 30s <nil>
}
