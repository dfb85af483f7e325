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

// Work on a stream uses its buffers after the call that enqueued it has returned. So each piece of work holds a
// reference to them, and pins Go memory, until its event is done. The first goroutine to see that releases them: a
// caller that queries the event, or the watcher. Event.Wait returns only when all work enqueued before it has released
// its buffers, so that a caller that has waited can close the pool of the buffers.

// holding is the memory that a piece of work keeps alive.
type holding struct {
	bufs     []*mem.Buffer
	pin      runtime.Pinner
	taken    atomic.Bool   // a goroutine is releasing
	finished chan struct{} // closed when released
}

// hold retains buffers until e is done. It is called before the work is enqueued, so that a failure in between cannot
// lose them.
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

// letGo releases the buffers of e, unless a goroutine does so already. Releasing may query e (a pool checks whether the
// memory is ready), so it must not wait for itself.
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

// keepWork records a piece of work until it is done.
func (s *Stream) keepWork(e *Event) {
	s.mu.Lock()
	s.work = append(s.work, e)
	s.mu.Unlock()
	watch(s)
}

// reap releases the buffers of completed work, and reports whether some is left. With wait it returns only when other
// goroutines that are releasing have finished too.
func (s *Stream) reap(wait bool) (left bool) {
	s.mu.Lock()
	list := s.work // never modified in place
	s.mu.Unlock()
	for _, e := range list {
		if !e.held.taken.Load() {
			if done, r := e.query(); !done && r == cudrv.Success {
				break // the stream runs work in order
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

// watcher polls streams with work, so that buffers are released even if no goroutine waits. Its goroutine exists only
// while there is such a stream.
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

// hasWork is called with the watcher locked: work enqueued later finds the stream unwatched.
func (s *Stream) hasWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.work) > 0
}
