// Package spanstest makes histories that look like those of real runs, for tests and measurements.
package spanstest

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
)

// Options describe a run. Zero values have defaults.
type Options struct {
	Workers  int           // 10
	Threads  int           // of a worker, 1
	Tasks    int           // 1,000
	Prefixes int           // 12
	Start    time.Time     // of the run; the default is now
	Mean     time.Duration // of tasks, 20 ms
	// Transfers is the share of tasks that a transfer precedes, Parts that of tasks with a deserialization, Disk that
	// of results that are written to disk, Errors that of tasks that fail.
	Transfers, Parts, Disk, Errors float64
	// Tuples is the share of tasks with keys such as ('name-hash', 3, 4); others have keys such as name-hash.
	Tuples float64
	Seed   uint64
	Batch  int // tasks of a batch, 512
}

// Stop returns the end of the run that Fill makes, roughly.
func (o Options) Stop() time.Time {
	o.defaults()
	return o.Start.Add(time.Duration(float64(o.Mean) * 1.3 * float64(o.Tasks) / float64(o.Workers*o.Threads)))
}

func (o *Options) defaults() {
	for _, field := range []struct {
		v   *int
		def int
	}{{&o.Workers, 10}, {&o.Threads, 1}, {&o.Tasks, 1000}, {&o.Prefixes, 12}, {&o.Batch, 512}} {
		if *field.v <= 0 {
			*field.v = field.def
		}
	}
	if o.Mean <= 0 {
		o.Mean = 20 * time.Millisecond
	}
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
}

// Realistic returns options of a run with transfers, deserialization, disk and a few errors.
func Realistic(workers, threads, tasks int) Options {
	return Options{Workers: workers, Threads: threads, Tasks: tasks, Transfers: 0.1, Parts: 0.02, Disk: 0.01,
		Errors: 0.001, Tuples: 0.5}
}

// Fill adds a run to a store and waits until it is visible. It returns the number of spans.
func Fill(s *spans.Store, o Options) int {
	r := New(s, o)
	n := 0
	for batches := 1; ; batches++ {
		k := r.Next()
		if k == 0 {
			break
		}
		n += k
		if batches%16 == 0 { // do not run ahead of the store, which would drop spans
			_ = s.Sync(context.Background())
		}
	}
	_ = s.Sync(context.Background())
	return n
}

// Run makes the spans of a run, in the order in which tasks finish.
type Run struct {
	o         Options
	store     *spans.Store
	batch     *spans.Batch
	rng       *rand.Rand
	workers   []uint32
	prefixes  []uint32
	names     []string
	transport []uint32
	threads   busy
	tasks     int
	current   collection
	key       []byte
}

// busy is the threads in a heap, that which is free first at the top.
type busy []thread

type thread struct {
	free   int64 // ns
	worker int
	ident  int64
}

// collection is the tasks of one operation on a collection: they have the prefix in common.
type collection struct {
	prefix int
	hash   [16]byte
	left   int
	chunk  int
	tuple  bool
	mean   float64
}

var words = [...]string{"read-parquet", "getitem", "shuffle-split", "shuffle-p2p", "merge", "groupby-agg", "sum",
	"inc", "from-delayed", "map-partitions", "to-device", "rechunk-merge", "finalize", "add", "dot", "qr"}

// New prepares a run.
func New(s *spans.Store, o Options) *Run {
	o.defaults()
	r := &Run{o: o, store: s, batch: new(spans.Batch), rng: rand.New(rand.NewPCG(o.Seed, 18))}
	for i := range o.Workers {
		address := fmt.Sprintf("tcp://10.%d.%d.%d:4%04d", i>>16, i>>8&255, i&255, i%10000)
		r.workers = append(r.workers, s.Worker(address, fmt.Sprint("worker-", i)))
		for t := range o.Threads {
			free := o.Start.UnixNano() + r.rng.Int64N(int64(o.Mean))
			r.threads = append(r.threads, thread{free, i, 0x7f0000000000 + int64(t)*4096})
		}
	}
	slices.SortFunc(r.threads, func(a, b thread) int { return int(a.free - b.free) })
	for i := range o.Prefixes {
		name := words[i%len(words)]
		if i >= len(words) {
			name = fmt.Sprint(name, "-", i)
		}
		r.names = append(r.names, name)
		r.prefixes = append(r.prefixes, s.Prefix(name))
	}
	for _, name := range []string{"tcp", "ucx:rc_mlx5", "ucx:cuda_ipc", "shm"} {
		r.transport = append(r.transport, s.Transport(name))
	}
	return r
}

// Next puts the next batch into the store and returns its number of spans, 0 at the end of the run.
func (r *Run) Next() int {
	n := r.fill()
	r.batch = r.store.Put(r.batch)
	return n
}

// Take returns the next batch without putting it into the store. It is empty at the end of the run.
func (r *Run) Take() *spans.Batch {
	r.fill()
	b := r.batch
	r.batch = new(spans.Batch)
	return b
}

// fill fills the batch and returns its number of spans.
func (r *Run) fill() int {
	for range r.o.Batch {
		if r.tasks == r.o.Tasks {
			break
		}
		r.tasks++
		r.step()
	}
	return r.batch.Len()
}

// step lets the thread that is free first execute a task.
func (r *Run) step() {
	if r.current.left == 0 {
		r.current = collection{prefix: r.rng.IntN(len(r.names)), left: 1 + r.rng.IntN(4*len(r.threads)),
			tuple: r.rng.Float64() < r.o.Tuples, mean: float64(r.o.Mean) * math.Exp(r.rng.NormFloat64()*0.5)}
		r.newHash()
	}
	c := &r.current
	c.left--
	c.chunk++
	t := &r.threads[0]
	w := r.workers[t.worker]
	at := t.free + 20_000 + r.rng.Int64N(300_000)
	key := r.nextKey()
	if r.rng.Float64() < r.o.Transfers {
		bytes := int64(math.Exp(10 + 3*r.rng.NormFloat64()))
		took := 100_000 + bytes/int64(1+r.rng.IntN(8))
		peer := r.workers[r.rng.IntN(len(r.workers))]
		transport := r.transport[r.rng.IntN(len(r.transport))]
		r.batch.Transfer(w, peer, true, transport, bytes, 1+r.rng.Int64N(4), at, at+took)
		at += took
	}
	if r.rng.Float64() < r.o.Parts {
		took := 50_000 + r.rng.Int64N(1_000_000)
		r.batch.Part(w, t.ident, key, spans.Deserialize, at, at+took)
		at += took
	}
	took := int64(c.mean * (0.5 + r.rng.ExpFloat64()*0.5))
	flags := uint8(0)
	if r.rng.Float64() < r.o.Errors {
		flags = spans.FlagError
	}
	size := int64(1000 + r.rng.IntN(100)*8)
	r.batch.Task(w, t.ident, key, r.prefixes[c.prefix], at, at+took, size, flags)
	if r.rng.Float64() < r.o.Disk {
		r.batch.Disk(w, key, r.rng.IntN(2) == 0, size, at+took, at+took+1_000_000+r.rng.Int64N(5_000_000))
	}
	t.free = at + took
	r.threads.down()
}

func (r *Run) newHash() {
	binary.LittleEndian.PutUint64(r.current.hash[:], r.rng.Uint64())
	binary.LittleEndian.PutUint64(r.current.hash[8:], r.rng.Uint64())
}

// nextKey returns the key of the task as msgpack.
func (r *Run) nextKey() []byte {
	c := &r.current
	name := r.names[c.prefix]
	r.key = r.key[:0]
	if c.tuple {
		r.key = append(r.key, 0x93)
	} else {
		r.newHash()
	}
	r.key = append(r.key, 0xd9, byte(len(name)+33))
	r.key = append(append(r.key, name...), '-')
	r.key = hex.AppendEncode(r.key, c.hash[:])
	if c.tuple {
		r.key = append(r.key, 0xcd, byte(c.chunk>>8), byte(c.chunk), byte(c.chunk&7))
	}
	return r.key
}

// down restores the order of the heap after its top has changed.
func (b busy) down() {
	i := 0
	for {
		j := 2*i + 1
		if j >= len(b) {
			return
		}
		if j+1 < len(b) && b[j+1].free < b[j].free {
			j++
		}
		if b[i].free <= b[j].free {
			return
		}
		b[i], b[j] = b[j], b[i]
		i = j
	}
}
