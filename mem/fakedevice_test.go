package mem_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"go.millstream.dev/mem"
)

// fakeGPU is a device whose streams work only when the test, or a query, says so: one piece of
// work at a time, of whichever stream it is told. Work is a function; each stream keeps its
// order, and waits for events of others, as a GPU's do.
type fakeGPU struct {
	mu      sync.Mutex
	streams []*fakeStream
	next    int    // which stream is asked first for a step
	onQuery bool   // a query makes one step, many in a row finish all work
	asked   int    // queries since something was enqueued
	failed  string // the first thing that work has found wrong
}

type fakeWork struct {
	run  func() // nil: none
	wait *fakeEvent
	mark *fakeEvent
}

type fakeStream struct {
	gpu          *fakeGPU
	id           int
	queue        []fakeWork
	marks, waits int // driver calls
	markErr      error
	waitErr      error
	ends         []func()
}

type fakeEvent struct {
	s    *fakeStream
	done bool
}

func (g *fakeGPU) stream() *fakeStream {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &fakeStream{gpu: g, id: len(g.streams) + 1}
	g.streams = append(g.streams, s)
	return s
}

// fail notes what work has found. The caller holds the lock, as all work does.
func (g *fakeGPU) fail(format string, args ...any) {
	if g.failed == "" {
		g.failed = fmt.Sprintf(format, args...)
	}
}

// step does one piece of work of some stream, and reports whether there was any.
func (g *fakeGPU) step() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stepLocked()
}

func (g *fakeGPU) stepLocked() bool {
	for range g.streams {
		g.next = (g.next + 1) % len(g.streams)
		s := g.streams[g.next]
		if len(s.queue) == 0 || s.queue[0].wait != nil && !s.queue[0].wait.done {
			continue
		}
		w := s.queue[0]
		s.queue = s.queue[1:]
		if w.run != nil {
			w.run()
		}
		if w.mark != nil {
			w.mark.done = true
		}
		return true
	}
	return false
}

// drain does all work.
func (g *fakeGPU) drain() {
	for g.step() {
	}
}

func (s *fakeStream) Handle() uintptr { return uintptr(0x100 * s.id) }

// enqueue adds work, which runs with the device's lock held.
func (s *fakeStream) enqueue(run func()) {
	s.gpu.mu.Lock()
	defer s.gpu.mu.Unlock()
	s.gpu.asked = 0
	s.queue = append(s.queue, fakeWork{run: run})
}

func (s *fakeStream) Mark() (mem.Event, error) {
	s.gpu.mu.Lock()
	defer s.gpu.mu.Unlock()
	s.marks++
	if s.markErr != nil {
		return nil, s.markErr
	}
	e := &fakeEvent{s: s}
	s.queue = append(s.queue, fakeWork{mark: e})
	return e, nil
}

func (s *fakeStream) WaitEvent(e mem.Event) error {
	s.gpu.mu.Lock()
	defer s.gpu.mu.Unlock()
	s.waits++
	if s.waitErr != nil {
		return s.waitErr
	}
	s.queue = append(s.queue, fakeWork{wait: e.(*fakeEvent)})
	return nil
}

func (s *fakeStream) OnClose(f func()) {
	s.gpu.mu.Lock()
	s.ends = append(s.ends, f)
	s.gpu.mu.Unlock()
}

// Close ends the stream; its work goes on.
func (s *fakeStream) Close() {
	s.gpu.mu.Lock()
	ends := s.ends
	s.ends = nil
	s.gpu.mu.Unlock()
	for _, f := range slices.Backward(ends) {
		f()
	}
	s.gpu.mu.Lock()
	s.markErr = errors.New("the stream is closed")
	s.waitErr = s.markErr
	s.gpu.mu.Unlock()
}

// calls is how many driver calls the stream has seen.
func (s *fakeStream) calls() int {
	s.gpu.mu.Lock()
	defer s.gpu.mu.Unlock()
	return s.marks + s.waits
}

func (e *fakeEvent) Handle() uintptr { return 1 }

func (e *fakeEvent) Query() (bool, error) {
	e.s.gpu.mu.Lock()
	defer e.s.gpu.mu.Unlock()
	done := e.done
	if g := e.s.gpu; g.onQuery {
		for g.asked++; g.stepLocked() && g.asked > 10; {
		}
	}
	return done, nil
}

func (e *fakeEvent) Wait(ctx context.Context) error {
	for {
		if done, err := e.Query(); done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.Gosched()
	}
}

func (e *fakeEvent) RecordedOn(s mem.Stream) bool { return s == mem.Stream(e.s) }

var (
	_ mem.Stream = (*fakeStream)(nil)
	_ mem.Event  = (*fakeEvent)(nil)
)
