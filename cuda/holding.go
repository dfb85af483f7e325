package cuda

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Work on a stream uses its buffers after the call that enqueued it has returned. So each
// piece of work holds a reference to them, and Go memory pinned, until its event is done. The
// first to see that lets go: the caller that asks the event, or the watcher. Event.Wait returns only
// when everything that was enqueued before it has been let go, so that a caller who has waited
// can close the pool that the buffers came from.

// holding is what a piece of work needs to stay alive.
type holding struct {
	bufs     []*mem.Buffer
	pin      runtime.Pinner
	taken    atomic.Bool   // a goroutine is letting go
	finished chan struct{} // and is through
}

// hold retains buffers until e is done. It is called before the work is enqueued, so that a
// failure in between cannot lose them.
func (e *Event) hold(bufs ...*mem.Buffer) {
	h := &holding{bufs: bufs, finished: make(chan struct{})}
	for _, b := range bufs {
		b.Retain()
		if b.Region().GoHeap() && b.Len() > 0 {
			h.pin.Pin(&b.Bytes()[0])
		}
	}
	e.held = h
}

// letGo releases what e holds, if that has not begun yet. Releasing may ask e again (a
// pool looks whether the memory is ready), so it must not wait for itself here.
func (e *Event) letGo() {
	h := e.held
	if h == nil || h.taken.Swap(true) {
		return
	}
	h.pin.Unpin()
	for _, b := range h.bufs {
		b.Release()
	}
	h.bufs = nil
	close(h.finished)
}

// keepWork remembers a piece of work until it is done.
func (s *Stream) keepWork(e *Event) {
	s.mu.Lock()
	s.work = append(s.work, e)
	s.mu.Unlock()
	watch(s)
}

// reap lets go of the work that is done, and reports whether some is left. With wait it
// returns only when other goroutines that are letting go are through as well.
func (s *Stream) reap(wait bool) (left bool) {
	s.mu.Lock()
	list := s.work // never changed in place
	s.mu.Unlock()
	for _, e := range list {
		if !e.held.taken.Load() {
			if done, r := e.query(); !done && r == cudrv.Success {
				break // the stream works in order
			}
			e.letGo()
		}
		if wait {
			<-e.held.finished
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.work, func(e *Event) bool { return !e.held.taken.Load() })
	switch {
	case i < 0:
		s.work = nil
	case i > 0: // a copy: the old array would keep the events reachable
		s.work = slices.Clone(s.work[i:])
	}
	return i >= 0
}

// watcher looks after streams with work, so that buffers are let go although no goroutine waits.
// Its goroutine exists only while there is such a stream.
var watcher struct {
	sync.Mutex
	streams []*Stream
	running bool
}

func watch(s *Stream) {
	watcher.Lock()
	defer watcher.Unlock()
	if s.watched {
		return
	}
	s.watched = true
	watcher.streams = append(watcher.streams, s)
	if !watcher.running {
		watcher.running = true
		go watchLoop()
	}
}

func watchLoop() {
	const first, last = 50 * time.Microsecond, 2 * time.Millisecond
	for pause := first; ; pause = min(pause*2, last) {
		time.Sleep(pause)
		watcher.Lock()
		streams := slices.Clone(watcher.streams)
		watcher.Unlock()
		for _, s := range streams {
			if !s.reap(false) {
				pause = first
			}
		}
		watcher.Lock()
		watcher.streams = slices.DeleteFunc(watcher.streams, func(s *Stream) bool {
			s.watched = s.hasWork()
			return !s.watched
		})
		if len(watcher.streams) == 0 {
			watcher.running = false
			watcher.Unlock()
			return
		}
		watcher.Unlock()
	}
}

// hasWork is asked with the watcher locked: work that comes later finds the stream unwatched.
func (s *Stream) hasWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.work) > 0
}
