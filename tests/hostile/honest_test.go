package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// square is the honest client's work.
var square = client.Func("hostile.square", func(_ context.Context, x int) (int, error) { return x * x, nil })

// begin connects the honest client and makes what must survive every attack: a result and a variable.
func (r *Rig) begin(ctx context.Context) error {
	c, err := r.connectHonest(ctx)
	if err != nil {
		return err
	}
	r.honest = c
	r.kept = square.Submit(ctx, c, client.Val(1001), client.WithKey("honest-kept"))
	if got, err := r.kept.Result(ctx); err != nil || got != 1001*1001 {
		return fmt.Errorf("first result: got %d, %v, want %d", got, err, 1001*1001)
	}
	return r.honestCall(ctx, r.Scheduler.Address, "variable_set", msgpack.MapOf("name", "honest", "client", "honest",
		"key", nil, "data", 4711), nil)
}

func (r *Rig) connectHonest(ctx context.Context) (*client.Client, error) {
	dial, err := r.dialConfig(secure.Client)
	if err != nil {
		return nil, err
	}
	return client.Connect(ctx, r.Scheduler.Address, client.Config{Dial: dial})
}

// honestCall makes one request on a connection that does not count as an attacker's.
func (r *Rig) honestCall(ctx context.Context, address, op string, args msgpack.Map, reply any) error {
	dial, err := r.dialConfig(secure.Client)
	if err != nil {
		return err
	}
	c, err := comm.Default.Dial(ctx, address, dial)
	if err != nil {
		return err
	}
	defer c.Abort()
	return rpc.Call(ctx, c, op, args, reply)
}

// check is what must hold after an attack.
func (r *Rig) check(ctx context.Context, a attack) error {
	var errs []error
	fail := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if !r.Scheduler.Alive() {
		return fmt.Errorf("the scheduler ended: %v", r.Scheduler.child.Err)
	}
	if a.ends {
		fail("workers", r.ensureWorkers(ctx))
	}
	for _, p := range r.processes() {
		if !p.Alive() {
			fail(p.Name, fmt.Errorf("process ended: %v", p.child.Err))
		}
	}
	if a.named {
		fail("log", r.named(ctx))
	}
	r.endAttack()
	fail("honest client", r.served(ctx))
	r.grown = ""
	for _, p := range r.processes() {
		limit := cmp.Or(a.memory, 512<<20)
		if p != r.Scheduler {
			limit *= workerMemory
		}
		got := p.growth()
		r.grown += fmt.Sprintf(" %s +%d MiB", p.Name, got>>20)
		if got > limit {
			fail(p.Name, fmt.Errorf("resident memory grew by %d MiB, want at most %d", got>>20, limit>>20))
		}
	}
	if r.journal && len(errs) == 0 {
		fail("restart from the journal", r.Restart(ctx))
	}
	return errors.Join(errs...)
}

// named waits until a log has an attacker.
func (r *Rig) named(ctx context.Context) error {
	r.mu.Lock()
	names := slices.Clone(r.attackers)
	r.mu.Unlock()
	if len(names) == 0 {
		return errors.New("the attack has opened nothing through the rig")
	}
	return until(ctx, fmt.Sprintf("a log names the attacker, one of %.200q", names), func() bool {
		return slices.ContainsFunc(r.processes(), func(p *Process) bool {
			log := p.Log()
			return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(log, n) })
		})
	})
}

// served has the client of the start and a new one compute and fetch, and asks for identities.
func (r *Rig) served(ctx context.Context) error {
	r.rounds++
	fresh, err := r.connectHonest(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = fresh.Close() }()
	for i, c := range []*client.Client{r.honest, fresh} {
		x := 2*r.rounds + i
		got, err := square.Submit(ctx, c, client.Val(x), client.WithKey(fmt.Sprintf("honest-%d", x))).Result(ctx)
		if err != nil || got != x*x {
			return fmt.Errorf("client %d: result: got %d, %v, want %d", i, got, err, x*x)
		}
	}
	for _, address := range []string{r.Scheduler.Address, r.Worker.Address, r.Nanny.Address, r.NannyWorker} {
		var id msgpack.Map
		if err := r.honestCall(ctx, address, "identity", nil, &id); err != nil || id.GetString("type") == "" {
			return fmt.Errorf("identity of %s: got %v, %v", address, id, err)
		}
	}
	return r.promised(ctx)
}

// promised reads what was made at the start.
func (r *Rig) promised(ctx context.Context) error {
	if got, err := r.kept.Result(ctx); err != nil || got != 1001*1001 {
		return fmt.Errorf("result of the start: got %d, %v, want %d", got, err, 1001*1001)
	}
	var v msgpack.Map
	err := r.honestCall(ctx, r.Scheduler.Address, "variable_get", msgpack.MapOf("name", "honest", "client", "honest",
		"timeout", 10), &v)
	got, _ := v.Get("value")
	if err != nil || fmt.Sprint(got) != "4711" {
		return fmt.Errorf("variable of the start: got %v, %v, want 4711", got, err)
	}
	return nil
}

// Restart kills the scheduler and starts it on the same journal. Clients and workers come back, and what was promised
// is there.
func (r *Rig) Restart(ctx context.Context) error {
	if r.Journal == "" {
		return errors.New("a scheduler without a journal cannot go on")
	}
	r.Scheduler.Kill()
	if err := r.startScheduler(); err != nil {
		return err
	}
	if err := r.ensureWorkers(ctx); err != nil {
		return err
	}
	return r.served(ctx)
}
