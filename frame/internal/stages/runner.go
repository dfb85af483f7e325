package stages

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
)

// Sizes that decide how plans are run.
const (
	// partitionBytes is the wanted size of partitions.
	partitionBytes = 64 << 20
	// bucketBytes is the least size of buckets of an exchange.
	bucketBytes = 64 << 10
)

// Config specifies how a plan is run. The zero value has the defaults.
type Config struct {
	// BroadcastBytes is the largest size of the side of a join that is sent to all tasks of the other side (default
	// 32 MiB; negative: none).
	BroadcastBytes int64
	// MergeBytes is the largest size of rows that one task merges without an exchange (default 4 MiB; negative: none).
	MergeBytes int64
	// Partitions is the number of partitions of exchanges (default: from sizes and threads).
	Partitions int
	// Measure keeps measurements of all tasks.
	Measure bool
}

func (c Config) withDefaults() Config {
	if c.BroadcastBytes == 0 {
		c.BroadcastBytes = 32 << 20
	}
	if c.MergeBytes == 0 {
		c.MergeBytes = 4 << 20
	}
	return c
}

// Host is a table of a plan whose partitions are in the memory of workers.
type Host interface {
	plan.Table
	// Parts returns its partitions in host memory, and a function that releases them.
	Parts(ctx context.Context) ([]*client.Future[arrow.RecordBatch], func(), error)
}

// Runner runs one plan once.
type Runner struct {
	c       *client.Client
	cfg     Config
	id      string
	threads int
	tasks   int
	tables  int
	held    map[releaser]bool
	ends    []func()
	ids     map[plan.Node]int
	sizes   map[plan.Table]Size
	profile *Profile
}

type releaser interface{ Release() }

// hold keeps a future until it is released, at the latest by Close.
func hold[T any](r *Runner, f *client.Future[T]) *client.Future[T] {
	r.held[f] = true
	return f
}

// release releases a future that hold keeps.
func release[T any](r *Runner, f *client.Future[T]) {
	if r.held[f] {
		delete(r.held, f)
		f.Release()
	}
}

// New returns a runner of one plan.
func New(ctx context.Context, c *client.Client, cfg Config) (*Runner, error) {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	r := &Runner{c: c, cfg: cfg.withDefaults(), id: hex.EncodeToString(id[:]), held: map[releaser]bool{},
		ids: map[plan.Node]int{}, sizes: map[plan.Table]Size{}, profile: newProfile()}
	workers, err := c.Workers(ctx)
	if err != nil {
		return nil, fmt.Errorf("frame: %w", err)
	}
	for _, w := range workers {
		r.threads += w.Threads
	}
	r.threads = max(1, r.threads)
	return r, nil
}

// Close releases what the run has left.
func (r *Runner) Close() {
	for f := range r.held {
		f.Release()
	}
	clear(r.held)
	for _, end := range r.ends {
		end()
	}
	r.ends = nil
}

// Run runs a plan and returns the partitions of its result, at least one.
func (r *Runner) Run(ctx context.Context, n plan.Node) ([]*client.Future[arrow.RecordBatch], error) {
	f, err := r.lower(ctx, n)
	if err != nil {
		return nil, err
	}
	return r.finish(ctx, f)
}

// finish submits the last stage.
func (r *Runner) finish(ctx context.Context, f *flow) ([]*client.Future[arrow.RecordBatch], error) {
	out := make([]*client.Future[arrow.RecordBatch], len(f.parts))
	if r.cfg.Measure {
		outs := r.submit(ctx, f, Buckets{})
		for i, o := range outs {
			out[i] = pickWhole.Submit(ctx, r.c, o)
		}
		_, err := r.stats(ctx, outs)
		if err != nil {
			client.ReleaseAll(out)
		}
		return out, err
	}
	for i := range f.parts {
		p := &f.parts[i]
		if len(p.ops) == 0 && len(p.first) == 1 && len(p.lists) == 0 {
			out[i] = client.FutureOf[arrow.RecordBatch](r.c, p.first[0].Key())
			continue
		}
		out[i] = submitPart(ctx, r, last, p, i, Buckets{})
	}
	r.releaseInputs(f)
	return out, nil
}

// emptyFlow returns a flow of one partition without rows.
func emptyFlow(s *arrow.Schema) (*flow, error) {
	encoded, err := scan.EncodeSchema(s)
	if err != nil {
		return nil, err
	}
	return &flow{schema: s, parts: []part{{in: encoded}}}, nil
}

// partitions returns the number of partitions of an exchange of so many bytes, from so many tasks.
func (r *Runner) partitions(bytes int64, tasks int) int {
	if r.cfg.Partitions > 0 {
		return r.cfg.Partitions
	}
	if bytes < 0 {
		return max(r.threads, tasks)
	}
	n := max(1, (bytes+partitionBytes-1)/partitionBytes)
	n = (n + int64(r.threads) - 1) / int64(r.threads) * int64(r.threads) // all threads have as much to do
	return int(max(1, min(n, bytes/(bucketBytes*int64(max(1, tasks))))))
}
