package worker

import (
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/task"
	"go.millstream.dev/wire/msgpack"
)

// period is a time from one moment to another, in ns since 1970.
type period struct{ start, stop int64 }

// cover makes p last over q too.
func (p *period) cover(q period) {
	if p.stop == 0 {
		*p = q
		return
	}
	p.start, p.stop = min(p.start, q.start), max(p.stop, q.stop)
}

// arrivals tells when results of peers were on their way that no task here has used yet:
// the first that does so has waited for them. Whoever holds the worker's turn owns it.
type arrivals map[task.Key]period

// mostArrivals bounds it: results that were fetched to be kept may never be used.
const mostArrivals = 1 << 14

func (a *arrivals) add(stored []state.Stored, p period) {
	if *a == nil || len(*a)+len(stored) > mostArrivals {
		*a = arrivals{}
	}
	for i := range stored[:min(len(stored), mostArrivals)] {
		(*a)[stored[i].Key] = p
	}
}

// use takes a result that a task needs from those that nobody has used.
func (a arrivals) use(k task.Key, waited *period) {
	if p, ok := a[k]; ok {
		delete(a, k)
		waited.cover(p)
	}
}

// leastRead is how long opening dependencies takes at least when they come from disk.
const leastRead = int64(time.Millisecond)

// parts are the parts of a run's time, as Dask names them: transfer of its dependencies,
// disk-read, compute.
type parts struct {
	moved       period // zero when nothing was
	load        int64  // when its dependencies began to be opened
	start, stop int64
}

func (p *parts) each(f func(action string, start, stop int64)) {
	if p.moved.stop > 0 {
		f("transfer", p.moved.start, p.moved.stop)
	}
	if p.load > 0 && p.start-p.load > leastRead {
		f("disk-read", p.load, p.start)
	}
	f("compute", p.start, p.stop)
}

// append adds the parts as Dask's startstops, from which the scheduler learns durations
// and what its task stream shows of a task.
func (p *parts) append(b []byte) []byte {
	n := 0
	p.each(func(string, int64, int64) { n++ })
	b = msgpack.AppendArrayHeader(name(b, "startstops"), n)
	p.each(func(action string, start, stop int64) {
		b = msgpack.AppendMapHeader(b, 3)
		b = msgpack.AppendString(name(b, "action"), action)
		b = msgpack.AppendFloat(name(b, "start"), seconds(start))
		b = msgpack.AppendFloat(name(b, "stop"), seconds(stop))
	})
	return b
}

// partsOf are those of a task that has ended in this turn, or its computation alone.
func (w *Worker) partsOf(t *state.Task, start, stop int64) parts {
	if r := w.ended; r != nil && r.key == t.Key() && r.start == start {
		return parts{moved: r.moved, load: r.load, start: start, stop: stop}
	}
	return parts{start: start, stop: stop}
}
