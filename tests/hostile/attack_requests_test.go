package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

func init() {
	register(
		attack{name: "metadata with a long path", targets: everywhere, named: true, memory: 4 << 30,
			run: longMetadataPath},
		attack{name: "metadata with a map as a name", targets: everywhere, named: true,
			run: func(ctx context.Context, r *Rig) error {
				return Refused(r.Call(ctx, r.Scheduler.Address, "set_metadata",
					msgpack.MapOf("keys", []any{"x", msgpack.MapOf("a", 1)}, "value", 1), nil))
			}},
		attack{name: "key of bytes, then a scrape", targets: everywhere, run: keyOfBytes},
		attack{name: "values nested deep", targets: everywhere, named: true, run: deepValues},
		attack{name: "restart of the same worker twice", targets: everywhere, ends: true,
			run: func(ctx context.Context, r *Rig) error {
				w, err := r.Join(ctx, "twice")
				if err != nil {
					return err
				}
				return r.Call(ctx, r.Scheduler.Address, "restart_workers",
					msgpack.MapOf("workers", []any{w.Address, w.Address}, "wait_for_workers", false, "on_error",
						"return",
						"timeout", 5), nil)
			}},
		attack{name: "topics without end, then a subscription", targets: everywhere, run: manyTopics},
		attack{name: "release of a lock that is being acquired", targets: everywhere, run: lockRace},
		attack{name: "forged results", targets: everywhere, named: true, run: forgedResults},
		// 1 GiB is kept, some of it once more in messages and records, and Go collects when that has doubled.
		attack{name: "large variables without end", targets: onTCP | journaled | plain, long: true, memory: 4 << 30,
			run: largeVariables},
		attack{name: "events of megabytes", targets: everywhere, run: largeEvents},
		attack{name: "journal of another user's making", targets: onTCP | journaled, run: unsafeJournals},
	)
}

// longMetadataPath overflowed the stack by one call per name. The short form has fewer names: the request itself costs
// memory.
func longMetadataPath(ctx context.Context, r *Rig) error {
	n := 1_000_000
	if r.Full {
		n = 12_000_000
	}
	keys := make([]any, n)
	for i := range keys {
		keys[i] = "k"
	}
	return Refused(r.Call(ctx, r.Scheduler.Address, "set_metadata", msgpack.MapOf("keys", keys, "value", 1), nil))
}

// keyOfBytes makes a task whose key is no text, which becomes the label of a metric.
func keyOfBytes(ctx context.Context, r *Rig) error {
	key := []byte("\xff\xfe bad")
	c, err := r.Client(ctx, "bytes")
	if err != nil {
		return err
	}
	if err := r.Call(ctx, r.Scheduler.Address, "update_data",
		msgpack.MapOf("who_has", msgpack.Map{{Key: key, Value: []any{r.Worker.Address}}},
			"nbytes", msgpack.Map{{Key: key, Value: 1}}, "client", c.Name), nil); err != nil {
		return err
	}
	for range 3 {
		if err := r.scrape(ctx); err != nil {
			return err
		}
	}
	if r.Journal == "" {
		return nil
	}
	if err := r.Restart(ctx); err != nil {
		return fmt.Errorf("restart with the key in the journal: %w", err)
	}
	return r.scrape(ctx)
}

func deepValues(ctx context.Context, r *Rig) error {
	deep := any(1)
	for range 1010 {
		deep = []any{deep}
	}
	for op, args := range map[string]msgpack.Map{
		"variable_set": msgpack.MapOf("name", "deep", "client", "x", "key", nil, "data", deep),
		"set_metadata": msgpack.MapOf("keys", []any{"deep"}, "value", deep),
	} {
		if err := Refused(r.Call(ctx, r.Scheduler.Address, op, args, nil)); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	return nil
}

func manyTopics(ctx context.Context, r *Rig) error {
	c, err := r.Client(ctx, "topics")
	if err != nil {
		return err
	}
	for i := range 101 {
		topics := make([]any, 1000)
		for k := range topics {
			topics[k] = fmt.Sprintf("t-%d-%d", i, k)
		}
		if err := c.Send(ctx, msgpack.MapOf("op", "log-event", "topic", topics, "msg", 1)); err != nil {
			return err
		}
	}
	if err := c.Send(ctx, msgpack.MapOf("op", "subscribe-topic", "topic", "news"),
		msgpack.MapOf("op", "log-event", "topic", "news", "msg", "hello")); err != nil {
		return err
	}
	_, err = c.Expect(ctx, "event")
	return err
}

// lockRace releases locks of a user at the moment when it gets them.
func lockRace(ctx context.Context, r *Rig) error {
	rounds := 100
	if r.Full {
		rounds = 1000
	}
	var peers [3]*rpc.Pool
	for i := range peers {
		dial, err := r.dialConfig(secure.Client)
		if err != nil {
			return err
		}
		peers[i] = rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: dial})
		r.AtEnd(func() { _ = peers[i].Close() })
	}
	call := func(i int, op string, args msgpack.Map) {
		_ = peers[i].Call(ctx, r.Scheduler.Address, op, args, nil) // refused or not: the scheduler must live
	}
	acquire := func(id string) msgpack.Map {
		return msgpack.MapOf("locks", []any{"l"}, "id", id, "timeout", 5, "num_locks", 1)
	}
	for i := range rounds {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		call(0, "multi_lock_acquire", acquire(a))
		var wg sync.WaitGroup
		wg.Go(func() { call(1, "multi_lock_acquire", acquire(b)) })
		wg.Go(func() {
			call(2, "multi_lock_release", msgpack.MapOf("id", a))
			call(2, "multi_lock_release", msgpack.MapOf("id", b))
		})
		wg.Wait()
		call(2, "multi_lock_release", msgpack.MapOf("id", b))
	}
	return ctx.Err()
}

// forgedResults announces the result that the honest client waits for, as a worker that was not asked for it.
func forgedResults(ctx context.Context, r *Rig) error {
	runner, err := r.Join(ctx, "runner")
	if err != nil {
		return err
	}
	forger, err := r.Join(ctx, "forger")
	if err != nil {
		return err
	}
	future := square.Submit(ctx, r.honest, client.Val(3), client.WithWorkers("runner"))
	defer future.Release()
	m, err := runner.Expect(ctx, "compute-task")
	if err != nil {
		return err
	}
	key, _ := m.Get("key")
	if err := forger.Send(ctx, msgpack.MapOf("op", "add-keys", "keys", []any{key}, "nbytes", []any{1}, "adopt", true,
		"stimulus_id", "x")); err != nil {
		return err
	}
	if _, err := forger.Expect(ctx, "remove-replicas"); err != nil {
		return fmt.Errorf("add-keys was not refused: %w", err)
	}
	if err := forger.Send(ctx, msgpack.MapOf("op", "task-finished", "key", key, "run_id", -1, "status", "OK", "nbytes",
		1, "type", nil,
		"typename", "int", "metadata", msgpack.Map{}, "thread", 1, "startstops", []any{}, "stimulus_id",
		"x")); err != nil {
		return err
	}
	if err := forger.Ended(ctx); err != nil {
		return fmt.Errorf("run_id -1 was not refused: %w", err)
	}
	if future.IsDone() {
		return errors.New("the forged result was believed")
	}
	return nil
}

// largeVariables fills the scheduler until it refuses, and waits until the values are deleted again: later attacks are
// measured without them.
func largeVariables(ctx context.Context, r *Rig) error {
	value := strings.Repeat("x", 16<<20)
	for i := range 100 {
		err := r.Call(ctx, r.Scheduler.Address, "variable_set", msgpack.MapOf("name", fmt.Sprintf("large-%d", i),
			"client", "x", "key", nil, "data", value), nil)
		if err == nil {
			continue
		}
		if err := Refused(err); err != nil {
			return err
		}
		c, err := r.Client(ctx, "cleaner")
		if err != nil {
			return err
		}
		for k := range i {
			if err := c.Send(ctx, msgpack.MapOf("op", "variable_delete", "name", fmt.Sprintf("large-%d", k), "client",
				"x")); err != nil {
				return err
			}
		}
		last := msgpack.MapOf("name", fmt.Sprintf("large-%d", i-1), "client", "x", "timeout", 0.01)
		return until(ctx, "the last variable is deleted", func() bool {
			return r.Call(ctx, r.Scheduler.Address, "variable_get", last, nil) != nil
		})
	}
	return errors.New("1.6 GiB of variables were accepted")
}

func largeEvents(ctx context.Context, r *Rig) error {
	text := strings.Repeat("x", 1<<20)
	n := 300
	if r.Full {
		n = 2000
	}
	for i := range n {
		if err := r.Call(ctx, r.Scheduler.Address, "log_event", msgpack.MapOf("topic", fmt.Sprintf("large-%d", i),
			"msg", text), nil); err != nil {
			return err
		}
	}
	return nil
}

// unsafeJournals starts schedulers on folders that others could have prepared: each must refuse, and write nothing.
func unsafeJournals(ctx context.Context, r *Rig) error {
	canary := filepath.Join(r.dir, "canary")
	if err := os.WriteFile(canary, []byte("canary"), 0o600); err != nil {
		return err
	}
	for name, prepare := range map[string]func(dir string) error{
		"open-folder": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "log-0000000000000001"), nil, 0o600),
				os.Chmod(dir, 0o777))
		},
		"linked-own-folder": func(dir string) error {
			return errors.Join(os.Symlink(r.dir, filepath.Join(dir, "millstream-journal")), os.Chmod(dir, 0o777))
		},
		"linked-lock": func(dir string) error { return os.Symlink(canary, filepath.Join(dir, "LOCK")) },
		"linked-log":  func(dir string) error { return os.Symlink(canary, filepath.Join(dir, "log-0000000000000001")) },
	} {
		dir := filepath.Join(r.dir, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), prepare(dir)); err != nil {
			return err
		}
		p, err := r.StartScheduler(name, "--port", "0", "--journal", dir)
		if err == nil {
			p.Kill()
			return fmt.Errorf("%s: the scheduler started", name)
		}
		if !strings.Contains(err.Error(), "not protected from other users") {
			return fmt.Errorf("%s: got %w, want a refusal", name, err)
		}
	}
	if got, err := os.ReadFile(canary); err != nil || string(got) != "canary" {
		return fmt.Errorf("the file behind the link: got %q, %v", got, err)
	}
	return os.RemoveAll(canary)
}
