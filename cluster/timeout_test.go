package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

// deaf ignores its context until the process ends.
var deaf = client.Func("cluster_test.deaf", func(context.Context, int) (int, error) { select {} })

// The future of a function that ignores its context ends after the timeout, and its worker runs the next task; likewise
// after a cancellation.
func TestTimeoutIgnored(t *testing.T) {
	leak.Check(t)
	var stderr buffer
	ctx, _, cl := start(t, cluster.Config{Workers: 1, Threads: 1, Logger: quiet, CloseTimeout: time.Second,
		Nanny: cluster.NannyConfig{Stderr: &stderr}})
	_, err := deaf.Submit(ctx, cl, client.Val(1), client.WithTimeout(50*time.Millisecond)).Result(ctx)
	var exc *wire.Exception
	if !errors.As(err, &exc) || exc.Type != "TimeoutError" ||
		!strings.Contains(err.Error(), "cluster_test.deaf took longer than its limit of 50ms") {
		t.Errorf("got %v, want TimeoutError", err)
	}
	if v, err := inc.Submit(ctx, cl, client.Val(1)).Result(ctx); v != 2 || err != nil {
		t.Errorf("got %v, %v, want 2", v, err)
	}
	f := deaf.Submit(ctx, cl, client.Val(2))
	if err := f.Cancel(); err != nil {
		t.Fatal(err)
	}
	if v, err := inc.Submit(ctx, cl, client.Val(2)).Result(ctx); v != 3 || err != nil {
		t.Errorf("after a cancellation: got %v, %v, want 3", v, err)
	}
}
