package mem

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Allocation is an allocation of a Tracking that has not been released.
type Allocation struct {
	Addr   uintptr
	Bytes  int
	Stream uintptr // handle of the stream of AllocOn, or 0
	When   time.Time
	Stack  string // of the Alloc call; empty without TrackingConfig.Stacks
}

// TrackingConfig configures a Tracking.
type TrackingConfig struct {
	// Stacks records the stack of every Alloc, which costs about a microsecond each.
	Stacks bool
}

// Tracking is a Resource that records every allocation until its release (RMM's TrackingResourceAdaptor).
type Tracking struct {
	adaptor
	cfg TrackingConfig

	mu   sync.Mutex
	next uint64
	out  map[uint64]tracked
}

type tracked struct {
	addr   uintptr
	bytes  int
	stream uintptr
	when   time.Time
	pcs    []uintptr
}

// NewTracking returns a Resource that tracks the allocations of upstream.
func NewTracking(upstream Resource, cfg TrackingConfig) (*Tracking, error) {
	if upstream == nil {
		return nil, errors.New("mem: NewTracking: no upstream resource")
	}
	return &Tracking{adaptor: adaptor{upstream}, cfg: cfg, out: map[uint64]tracked{}}, nil
}

// Alloc returns a buffer of n bytes of the upstream resource.
func (t *Tracking) Alloc(ctx context.Context, n int) (*Buffer, error) {
	return t.alloc(ctx, n, nil)
}

// AllocOn is Alloc in stream order, see StreamResource.
func (t *Tracking) AllocOn(ctx context.Context, n int, st Stream) (*Buffer, error) {
	return t.alloc(ctx, n, st)
}

func (t *Tracking) alloc(ctx context.Context, n int, st Stream) (*Buffer, error) {
	b, err := AllocOn(ctx, t.upstream, n, st)
	if err != nil {
		return nil, err
	}
	a := tracked{addr: b.Addr(), bytes: n, stream: streamHandle(st), when: time.Now()}
	if t.cfg.Stacks {
		var pcs [32]uintptr
		a.pcs = slices.Clone(pcs[:runtime.Callers(3, pcs[:])])
	}
	t.mu.Lock()
	id := t.next
	t.next++
	t.out[id] = a
	t.mu.Unlock()
	b.OnFree(func() {
		t.mu.Lock()
		delete(t.out, id)
		t.mu.Unlock()
	})
	return b, nil
}

// Outstanding returns the allocations that have not been released, oldest first.
func (t *Tracking) Outstanding() []Allocation {
	t.mu.Lock()
	ids := make([]uint64, 0, len(t.out))
	for id := range t.out {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	found := make([]tracked, len(ids))
	for i, id := range ids {
		found[i] = t.out[id]
	}
	t.mu.Unlock()
	list := make([]Allocation, len(found))
	for i, a := range found {
		list[i] = Allocation{Addr: a.addr, Bytes: a.bytes, Stream: a.stream, When: a.when, Stack: stackText(a.pcs)}
	}
	return list
}

// Report describes the outstanding allocations, one line each followed by its stack.
func (t *Tracking) Report() string {
	var text strings.Builder
	for _, a := range t.Outstanding() {
		fmt.Fprintf(&text, "%#x %d bytes on stream %#x since %s\n%s", a.Addr, a.Bytes, a.Stream,
			a.When.Format(time.RFC3339Nano), a.Stack)
	}
	return text.String()
}

func stackText(pcs []uintptr) string {
	if len(pcs) == 0 {
		return ""
	}
	var text strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		fmt.Fprintf(&text, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return text.String()
		}
	}
}
