package scheduler

import (
	"context"
	"log/slog"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
)

// streamEnded tells the loop that a stream is over. It returns when the loop knows.
func (s *Scheduler) streamEnded(st *stream, err error) {
	why := "connection lost"
	if err != nil {
		why = err.Error()
	}
	if st.worker != nil {
		s.awaitCause(st)
	}
	err = s.loop.Do(context.Background(), func() {
		switch {
		case st.gone:
		case st.worker != nil && st.leaving:
			s.removeWorker(st.worker, "it left", true, false)
		case st.worker != nil:
			st.worker.mayReturn = true
			s.removeWorker(st.worker, why, false, false)
		case st.client != nil:
			s.clientEnded(st)
		}
	})
	if err != nil { // the loop has ended, and nobody else lets it go
		st.out.Abort(err)
	}
	<-st.out.Done
}

// removeWorker takes a worker out: what it processed runs elsewhere. It runs in the loop.
// safe tells that its tasks are not to blame, tell that it gets the order to end.
func (s *Scheduler) removeWorker(w *worker, why string, safe, tell bool) {
	if s.workers[w.address] != w {
		return
	}
	if w.cause != "" && !safe {
		why = w.cause
	}
	var processing, lost int
	if sw := s.state.Worker(w.id); sw != nil {
		processing = sw.NumProcessing()
		for i := range sw.NumHeld() {
			if sw.Held(i).NumHolders() == 1 {
				lost++
			}
		}
	}
	event := msgpack.MapOf("action", "remove-worker", "processing-tasks", processing, "lost-tasks", lost, "expected", safe, "reason", why)
	s.topics.Publish(event, w.address)
	s.topics.Publish(append(event[:len(event):len(event)], msgpack.Pair{Key: "worker", Value: w.address}), "all")
	// The workers that stay hear that a shuffle is over before they get its tasks again.
	runs := s.shufflesLose(w.address)
	ev := &state.RemoveWorker{Worker: w.id, Safe: safe, Close: tell, Reason: why}
	if w.mayReturn && w.incarnation != "" && w.cause == "" && !s.ending {
		ev.Await = s.cfg.Reattach
	}
	s.apply(ev)
	if ev.Awaited > 0 {
		s.log.Warn("data kept for the return of a worker", "worker", w.address, "pieces", ev.Awaited, "wait", s.cfg.Reattach)
		s.probe(w)
	}
	for _, x := range runs {
		s.restartShuffle(x)
	}
	s.forgetWorker(w, why, safe)
}

// forgetWorker removes what the server knows of a worker that the state has removed.
func (s *Scheduler) forgetWorker(w *worker, why string, safe bool) {
	if w == nil || s.workers[w.address] != w {
		return
	}
	delete(s.workers, w.address)
	delete(s.aliases, w.alias)
	s.removed[w.address] = s.loop.Now()
	s.totals.workersRemoved++
	s.journal.Worker(w.address, false)
	w.st.end()
	s.loop.Later(func() { // one that was retired
		for _, x := range s.shufflesLose(w.address) {
			s.restartShuffle(x)
		}
	})
	s.watch(w, false)
	level := slog.LevelWarn
	switch {
	case s.ending:
		level = slog.LevelDebug
	case safe:
		level = slog.LevelInfo
	}
	s.log.Log(s.ctx, level, "remove worker", "address", w.address, "name", w.name, "reason", why)
	go s.pool.Remove(w.address) // dials are given up, which may take a moment
}
