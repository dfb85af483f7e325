package scheduler

import (
	"context"
	"log/slog"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
)

// streamEnded tells the loop that a stream is over. It returns when the loop knows.
func (s *Scheduler) streamEnded(st *peers.Stream, err error) {
	why := "connection lost"
	if err != nil {
		why = err.Error()
	}
	if st.Worker != nil {
		s.awaitCause(st)
	}
	err = s.loop.Do(context.Background(), func() {
		switch {
		case st.Gone:
		case st.Worker != nil && st.Leaving:
			s.removeWorker(st.Worker, "it left", true, false)
		case st.Worker != nil:
			st.Worker.MayReturn = true
			s.removeWorker(st.Worker, why, false, false)
		case st.Client != nil:
			s.clientEnded(st)
		}
	})
	if err != nil { // the loop has ended, and nobody else lets it go
		st.Out.Abort(err)
	}
	<-st.Out.Done
}

// removeWorker takes a worker out: what it processed runs elsewhere. It runs in the loop.
// safe tells that its tasks are not to blame, tell that it gets the order to end.
func (s *Scheduler) removeWorker(w *peers.Worker, why string, safe, tell bool) {
	if s.workers.ByAddress[w.Address] != w {
		return
	}
	if w.Cause != "" && !safe {
		why = w.Cause
	}
	var processing, lost int
	if sw := s.state.Worker(w.ID); sw != nil {
		processing = sw.NumProcessing()
		for i := range sw.NumHeld() {
			if sw.Held(i).NumHolders() == 1 {
				lost++
			}
		}
	}
	event := msgpack.MapOf("action", "remove-worker", "processing-tasks", processing, "lost-tasks", lost, "expected", safe, "reason", why)
	s.topics.Publish(event, w.Address)
	s.topics.Publish(append(event[:len(event):len(event)], msgpack.Pair{Key: "worker", Value: w.Address}), "all")
	// The workers that stay hear that a shuffle is over before they get its tasks again.
	runs := s.shuffles.Lose(w.Address)
	ev := &state.RemoveWorker{Worker: w.ID, Safe: safe, Close: tell, Reason: why}
	if w.MayReturn && w.Incarnation != "" && w.Cause == "" && !s.ending {
		ev.Await = s.cfg.Reattach
	}
	s.apply(ev)
	if ev.Awaited > 0 {
		s.log.Warn("data kept for the return of a worker", "worker", w.Address, "pieces", ev.Awaited, "wait", s.cfg.Reattach)
		s.probe(w)
	}
	for _, x := range runs {
		s.shuffles.Restart(x)
	}
	s.forgetWorker(w, why, safe)
}

// forgetWorker removes what the server knows of a worker that the state has removed.
func (s *Scheduler) forgetWorker(w *peers.Worker, why string, safe bool) {
	if w == nil || s.workers.ByAddress[w.Address] != w {
		return
	}
	s.workers.Remove(w)
	s.removed[w.Address] = s.loop.Now()
	s.totals.WorkersRemoved++
	s.journal.Worker(w.Address, false)
	w.Stream.End()
	s.loop.Later(func() { // one that was retired
		for _, x := range s.shuffles.Lose(w.Address) {
			s.shuffles.Restart(x)
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
	s.log.Log(s.ctx, level, "remove worker", "address", w.Address, "name", w.Name, "reason", why)
	go s.pool.Remove(w.Address) // dials are given up, which may take a moment
}
