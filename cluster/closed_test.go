package cluster_test

import (
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
)

// TestLocalIsClosed submits a task with a resource that no worker has: no other workers can connect, so the task fails
// at once. With credentials for other programs they can, and the task waits.
func TestLocalIsClosed(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			leak.Check(t)
			ctx, c, cl := start(t, cluster.Config{Mode: mode, Workers: 1, Threads: 1,
				Scheduler: func(cfg *scheduler.Config) { cfg.UnrunnableAfter = 50 * time.Millisecond }})
			gpu := client.WithResources(map[string]float64{"GPU": 1})
			_, err := look.Submit(ctx, cl, client.Val(1), gpu).Result(ctx)
			if err == nil || !strings.Contains(err.Error(), "no worker has resource GPU") || ctx.Err() != nil {
				t.Fatalf("got %v, want an error about the resource", err)
			}
			if mode == cluster.Goroutines {
				return
			}
			if _, err := c.WriteCredentials(t.TempDir()); err != nil {
				t.Fatal(err)
			}
			f := look.Submit(ctx, cl, client.Val(2), gpu)
			for !strings.Contains(f.String(), "pending: the tasks require resource GPU=1") {
				select {
				case <-ctx.Done():
					t.Fatalf("the future is %v, want the reason", f)
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
}
