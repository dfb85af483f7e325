package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/primitives"
)

type rig struct {
	*hosttest.Host
	*Plugins
	budget primitives.Budget
	sent   []string // ops, plugins and whether they were sent to nannies
	fail   error
}

func start(t *testing.T) *rig {
	r := &rig{Host: hosttest.New(t)}
	r.Plugins = New(Host{Loop: r.Loop, Journal: r.Host.Journal, Budget: &r.budget,
		Broadcast: func(_ context.Context, m msgpack.Map, nanny bool) (any, error) {
			r.sent = append(r.sent, fmt.Sprint(m.GetString("op"), " ", m.GetString("name"), " ", nanny))
			return msgpack.MapOf("worker", "OK"), r.fail
		}}, msgpack.MapOf("own", []byte("built in")))
	r.Serve(r.Register)
	return r
}

func (r *rig) names() (out string) {
	r.Do(func() {
		for _, m := range []msgpack.Map{r.Workers(), r.Nannies()} {
			for _, p := range m {
				out += fmt.Sprint(p.Key, " ")
			}
			out += "| "
		}
	})
	return strings.TrimSpace(out)
}

// Plugins are kept for future peers, in order, and sent to present ones.
func TestPlugins(t *testing.T) {
	r := start(t)
	if v, _ := r.Call("register_worker_plugin", "plugin", []byte("p"), "name",
		"a").(msgpack.Map); v.GetString("worker") != "OK" {
		t.Errorf("got %v, want the answers of the workers", v)
	}
	r.Call("register_worker_plugin", "plugin", []byte("p"), "name", "b")
	r.Call("register_nanny_plugin", "plugin", []byte("p"), "name", "a")
	if got := r.names(); got != "own a b | a |" {
		t.Errorf("plugins: got %s", got)
	}
	n := r.budget.Bytes()
	r.Call("register_worker_plugin", "plugin", []byte("q"), "name", "a")
	if r.budget.Bytes() != n {
		t.Errorf("bytes after a replacement of the same size: got %d, want %d", r.budget.Bytes(), n)
	}
	r.sent = nil
	r.Call("register_worker_plugin", "plugin", []byte("longer"), "name", "a", "idempotent", true)
	if len(r.sent) != 0 || r.budget.Bytes() != n {
		t.Errorf("idempotent plugin: got sent %v, %d bytes", r.sent, r.budget.Bytes())
	}
	r.Call("unregister_worker_plugin", "name", "a")
	r.Call("unregister_nanny_plugin", "name", "a")
	r.Call("unregister_worker_plugin", "name", "b")
	if got := r.names(); got != "own | |" || r.budget.Bytes() != 0 {
		t.Errorf("after removal: got %s, %d bytes", got, r.budget.Bytes())
	}
	if got := fmt.Sprint(r.sent); got != "[plugin-remove a false plugin_remove a true plugin-remove b false]" {
		t.Errorf("requests: got %s", got)
	}
	r.Fails("The worker plugin a does not exist", "unregister_worker_plugin", "name", "a")
	r.Fails("The nanny plugin a does not exist", "unregister_nanny_plugin", "name", "a")
}

// Rejected plugins are neither kept nor sent; plugins that workers reject are kept.
func TestRefused(t *testing.T) {
	r := start(t)
	r.Do(func() { r.budget.SetLimit(10) })
	r.Fails("millstream.scheduler.primitives", "register_worker_plugin", "plugin", []byte("p"), "name", "a")
	r.Do(func() { r.budget.SetLimit(0) })
	r.Host.Journal.Refuse(errors.New("no"))
	r.Fails("no", "register_worker_plugin", "plugin", []byte("p"), "name", "a")
	r.Host.Journal.Refuse(nil)
	deep := any("x")
	for range 600 {
		deep = []any{deep}
	}
	r.Fails("nested", "register_nanny_plugin", "plugin", deep, "name", "a")
	if got := r.names(); got != "own | |" || len(r.sent) != 0 || r.budget.Bytes() != 0 {
		t.Errorf("after rejections: got %s, sent %v, %d bytes", got, r.sent, r.budget.Bytes())
	}
	r.fail = errors.New("a worker fails")
	r.Fails("a worker fails", "register_worker_plugin", "plugin", []byte("p"), "name", "a")
	if got := r.names(); got != "own a | |" {
		t.Errorf("plugins: got %s, want own and a", got)
	}
}

func TestReplay(t *testing.T) {
	r := start(t)
	r.Call("register_worker_plugin", "plugin", []byte("p"), "name", "a")
	r.Call("register_worker_plugin", "plugin", []byte("p"), "name", "gone")
	r.Call("register_nanny_plugin", "plugin", []byte("p"), "name", "own")
	r.Call("unregister_worker_plugin", "name", "gone")
	n := start(t)
	r.Do(func() {
		r.EachChange(func(op string, args msgpack.Map) {
			if !n.Replay(op, args) {
				t.Errorf("%s: not replayed", op)
			}
		})
	})
	if got := n.names(); got != "own a | own |" || n.budget.Bytes() != r.budget.Bytes() {
		t.Errorf("got %s, %d bytes, want %d", got, n.budget.Bytes(), r.budget.Bytes())
	}
	n.Do(func() {
		if !n.Replay("plugin-remove", msgpack.MapOf("name", "a", "nanny", false)) || n.Replay("set_metadata", nil) {
			t.Error("Replay: got the wrong value")
		}
		if n.Workers().Has("a") {
			t.Error("removed plugin: still present")
		}
	})
}
