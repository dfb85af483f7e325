package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	sched "go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task/taskid"
)

// deadline bounds the virtual time of a simulation after the last fault.
const deadline = 30 * time.Minute

// world is one simulation. All of it runs in one goroutine.
type world struct {
	cfg      Config
	rnd      *rand.Rand
	clock    clock
	head     *head
	procs    []*proc
	clients  []*client
	nodes    []*node
	byKey    map[taskid.Key]*node
	address  map[string]*proc
	over     bool
	tracing  bool
	line     bytes.Buffer
	report   Report
	messages uint64
	refused  uint64
}

// Report has the counts of a simulation.
type Report struct {
	// Virtual is the virtual time, Messages the number of delivered messages, followed by the events of both kinds of
	// state machines.
	Virtual                         time.Duration
	Messages                        uint64
	SchedulerEvents, WorkerEvents   uint64
	SchedulerCPU, WorkerCPU         time.Duration
	Tasks, Runs, Transfers, Checked int
	// Values is the number of results that the scheduler passed on to workers.
	Values int
	// Ahead is the number of tasks that the scheduler sent ahead of their inputs.
	Ahead int
	// Kills is the number of killed workers, LostStores of those that held results, Breaks of broken streams, followed
	// by Partitions, Freezes, Restarts of the scheduler, and late messages that it Refused.
	Kills, LostStores, Breaks, Partitions, Freezes, Restarts, Refused int
	// Resubmitted is the number of keys that the scheduler had lost or canceled, followed by KilledWorker errors and
	// Canceled keys.
	Resubmitted, KilledWorker, Canceled int
}

// Error is returned by Run for a failed simulation.
type Error struct {
	// Seed reproduces it.
	Seed uint64
	// At is the virtual time.
	At time.Duration
	// What describes the failure.
	What string
}

// Error returns the failure, its time and the command that reproduces it.
func (e *Error) Error() string {
	return fmt.Sprintf("seed %d at %v: %s\n  to reproduce with a trace: go test ./internal/engine/sim -run "+
		"TestSeed$ -sim.seed=%d -sim.trace",
		e.Seed, e.At, e.What, e.Seed)
}

func (w *world) fail(format string, args ...any) {
	panic(&Error{Seed: w.cfg.Seed, At: time.Duration(w.clock.now), What: fmt.Sprintf(format, args...)})
}

// Run simulates until every client has checked its results and everything is released. The error is an *Error.
func Run(cfg Config) (report Report, err error) {
	if cfg.cpu == nil {
		cfg.cpu = func() time.Duration { return time.Since(started) }
	}
	w := &world{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 1)), byKey: map[taskid.Key]*node{},
		address: map[string]*proc{}, tracing: cfg.Trace != nil}
	defer func() {
		v := recover()
		report = w.counts()
		switch v := v.(type) {
		case nil:
		case *Error:
			err = v
		default: // an invariant of a state machine is broken
			err = &Error{Seed: cfg.Seed, At: time.Duration(w.clock.now),
				What: fmt.Sprintf("%v\n%s", v, machineFrames(debug.Stack()))}
		}
		if err != nil {
			w.trace("FAILED: %v", err)
		}
	}()
	w.run()
	return w.counts(), nil
}

func (w *world) run() {
	w.head = newHead(w)
	for i := range w.cfg.Workers {
		w.procs = append(w.procs, w.newProc(i))
	}
	for i := range w.cfg.Clients {
		w.clients = append(w.clients, w.newClient(i))
	}
	w.startFaults()
	limit := int64(w.cfg.Faults.Until + deadline)
	w.until(limit, "everything is computed and checked", func() bool {
		for _, c := range w.clients {
			if !c.finished() {
				return false
			}
		}
		return true
	}, w.unfinished)
	w.cfg.Faults.Until = time.Duration(w.clock.now) // all results are checked: no more faults
	w.trace("all results checked")
	// Wait for frees, requests and late events; then nothing may be left.
	w.until(w.clock.now+int64(deadline), "nothing is left", w.clean, w.leftovers)
	w.over = true
}

// until advances time until a condition holds.
func (w *world) until(limit int64, what string, reached func() bool, story func() string) {
	for n := 0; ; n++ {
		if n%64 == 0 && reached() {
			return
		}
		if !w.clock.step() {
			w.fail("no more events, want: %s\n%s", what, story())
		}
		if w.clock.now > limit {
			w.fail("condition false after %v of virtual time, want: %s\n%s", deadline, what, story())
		}
	}
}

// clean reports whether all states are empty.
func (w *world) clean() bool {
	if !w.head.up || w.head.s.NumTasks() > 0 || len(w.head.waiting) > 0 {
		return false
	}
	for _, p := range w.procs {
		if !p.alive || len(p.store) > 0 || p.s.Len() > 0 || p.conn == nil || p.conn.id == sched.NoWorker {
			return false
		}
	}
	return true
}

// unfinished describes the keys that clients still wait for.
func (w *world) unfinished() string {
	var b strings.Builder
	for _, c := range w.clients {
		fmt.Fprintf(&b, "%s: online=%v, %d graphs to submit, %d keys\n", c.name, c.online, c.left, len(c.order))
		for _, f := range c.order[:min(len(c.order), 5)] {
			fmt.Fprintf(&b, "  %s done=%v checked=%v; ", f.n.key, f.done, f.checked)
			w.describeTask(&b, f.n, 0)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// describeTask describes a task in the scheduler and its missing dependencies.
func (w *world) describeTask(b *strings.Builder, n *node, depth int) {
	t := w.head.s.Task(n.key)
	if t == nil {
		fmt.Fprintf(b, "%s unknown to the scheduler", n.key)
		return
	}
	fmt.Fprintf(b, "%s %v", n.key, t.State())
	if p := t.ProcessingOn(); p != nil {
		fmt.Fprintf(b, " on %s %v run %x", p.Name(), p.Status(), t.RunID())
		if q := w.byAddress(p.Address()); q != nil {
			fmt.Fprintf(b, " (there: %v)", q.s.Task(n.key))
		}
	}
	for i := range t.NumHolders() {
		fmt.Fprintf(b, " held by %s", t.Holder(i).Name())
	}
	for d := range t.WaitingOn() {
		if depth < 6 {
			b.WriteString(" <- ")
			w.describeTask(b, w.byKey[d.Key()], depth+1)
		}
		break
	}
}

// leftovers describes tasks and results that were not released.
func (w *world) leftovers() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scheduler: up=%v, %d tasks, requests without answer %v\n", w.head.up, w.head.s.NumTasks(),
		w.head.waiting)
	for _, n := range w.nodes {
		if t := w.head.s.Task(n.key); t != nil {
			fmt.Fprintf(&b, "  %s %v, %d dependents", n.key, t.State(), t.NumDependents())
			for c := range t.WhoWants() {
				fmt.Fprintf(&b, ", wanted by %s", c.Name())
			}
			b.WriteByte('\n')
		}
	}
	for _, p := range w.procs {
		fmt.Fprintf(&b, "%s: alive=%v, %d results, %d tasks, registered=%v\n", p.name, p.alive, len(p.store), p.s.Len(),
			p.conn != nil && p.conn.id != sched.NoWorker)
		for _, n := range w.nodes {
			if t := p.s.Task(n.key); t != nil {
				fmt.Fprintf(&b, "  %v\n", t)
			} else if _, ok := p.store[n.key]; ok {
				fmt.Fprintf(&b, "  %s is in the store, but not in the state\n", n.key)
			}
		}
	}
	return b.String()
}

// byAddress returns the running process with an address.
func (w *world) byAddress(address string) *proc {
	if p := w.address[address]; p != nil && p.alive && p.address == address {
		return p
	}
	return nil
}

// delay returns the delay of one message.
func (w *world) delay() time.Duration {
	return time.Duration((0.1 + w.rnd.ExpFloat64()) * float64(w.cfg.Latency))
}

func (w *world) trace(format string, args ...any) {
	if !w.tracing {
		return
	}
	w.line.Reset()
	fmt.Fprintf(&w.line, "%12.6f ", time.Duration(w.clock.now).Seconds())
	fmt.Fprintf(&w.line, format, args...)
	w.line.WriteByte('\n')
	w.cfg.Trace.Write(w.line.Bytes())
}

func (w *world) counts() Report {
	r := w.report
	r.Virtual, r.Messages, r.Refused, r.Tasks = time.Duration(w.clock.now), w.messages, int(w.refused), len(w.nodes)
	if w.head != nil {
		r.SchedulerEvents, r.SchedulerCPU = w.head.events, w.head.cpu
	}
	for _, p := range w.procs {
		r.WorkerEvents += p.events
		r.WorkerCPU += p.cpu
	}
	return r
}

// machineFrames returns the lines of a stack that are in a state machine.
func machineFrames(stack []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(stack)) {
		if strings.HasPrefix(line, "\t") && strings.Contains(line, "/state/") {
			b.WriteString(line)
		}
	}
	return b.String()
}
