package sidecar

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// A removed plugin is not installed in the next process, also when the current process did not reply.
func TestPluginRemove(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.keepPlugin(Plugin{name, []byte(name)})
	}
	l, err := comm.Default.Listen(t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(rpc.Config{Type: "Worker", Logger: slog.New(slog.DiscardHandler)})
	s.Handle("plugin-remove", r.PluginRemove)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(ctx, l) })
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	defer func() {
		_ = pool.Close()
		cancel()
		_ = s.Close()
		all.Wait()
	}()
	for _, c := range []struct {
		remove string
		want   []string
	}{{"b", []string{"a", "c"}}, {"b", []string{"a", "c"}}, {"a", []string{"c"}}} {
		err := pool.Call(t.Context(), l.ContactAddr(), "plugin-remove", msgpack.MapOf("name", c.remove), nil)
		if err == nil {
			t.Error("got a reply without a process")
		}
		var got []string
		r.mu.Lock()
		for _, p := range r.plugins {
			got = append(got, p.Name)
		}
		r.mu.Unlock()
		if !slices.Equal(got, c.want) {
			t.Errorf("after the removal of %s: got %v, want %v", c.remove, got, c.want)
		}
	}
}
