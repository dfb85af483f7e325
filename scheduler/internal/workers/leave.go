package workers

import (
	"context"
	"log/slog"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
)

// StreamEnded tells the loop that a stream is over. It returns when the loop knows.
func (s *Workers) StreamEnded(st *peers.Stream, err error) {
	why := "connection lost"
	if err != nil {
		why = err.Error()
	}
	if st.Worker != nil {
		s.awaitCause(st)
	}
	err = s.Loop.Do(context.Background(), func() {
		switch {
		case st.Gone:
		case st.Worker != nil && st.Leaving:
			s.Remove(st.Worker, "it left", true, false)
		case st.Worker != nil:
			st.Worker.MayReturn = true
			s.Remove(st.Worker, why, false, false)
		case st.Client != nil:
			s.ClientEnded(st)
		}
	})
	if err != nil { // the loop has ended, and nobody else lets it go
		st.Out.Abort(err)
	}
	<-st.Out.Done()
}

// Remove takes a worker out: what it processed runs elsewhere. It runs in the loop.
// safe tells that its tasks are not to blame, tell that it gets the order to end.
func (s *Workers) Remove(w *peers.Worker, why string, safe, tell bool) {
	if s.ByAddress[w.Address] != w {
		return
	}
	if w.Cause != "" && !safe {
		why = w.Cause
	}
	var processing, lost int
	if sw := s.State.Worker(w.ID); sw != nil {
		processing = sw.NumProcessing()
		for i := range sw.NumHeld() {
			if sw.Held(i).NumHolders() == 1 {
				lost++
			}
		}
	}
	event := msgpack.MapOf("action", "remove-worker", "processing-tasks", processing, "lost-tasks", lost, "expected",
		safe, "reason", why)
	s.Topics.Publish(event, w.Address)
	s.Topics.Publish(append(event[:len(event):len(event)], msgpack.Pair{Key: "worker", Value: w.Address}), "all")
	// The workers that stay hear that a shuffle is over before they get its tasks again.
	runs := s.Shuffles.Lose(w.Address)
	ev := &state.RemoveWorker{Worker: w.ID, Safe: safe, Close: tell, Reason: why}
	if w.MayReturn && w.Incarnation != "" && w.Cause == "" && !s.Ending() {
		ev.Await = s.Reattach
	}
	s.Apply(ev)
	if ev.Awaited > 0 {
		s.Log.Warn("data kept for the return of a worker", "worker", w.Address, "pieces", ev.Awaited, "wait",
			s.Reattach)
		s.probe(w)
	}
	for _, x := range runs {
		s.Shuffles.Restart(x)
	}
	s.Forget(w, why, safe)
}

// Forget removes what the server knows of a worker that the state has removed.
func (s *Workers) Forget(w *peers.Worker, why string, safe bool) {
	if w == nil || s.ByAddress[w.Address] != w {
		return
	}
	s.Workers.Remove(w)
	s.Left(w.Address)
	s.Totals.WorkersRemoved++
	s.Journal.Worker(w.Address, false)
	w.Stream.End()
	s.Loop.Later(func() { // one that was retired
		for _, x := range s.Shuffles.Lose(w.Address) {
			s.Shuffles.Restart(x)
		}
	})
	s.Watch(w, false)
	level := slog.LevelWarn
	switch {
	case s.Ending():
		level = slog.LevelDebug
	case safe:
		level = slog.LevelInfo
	}
	s.Log.Log(s.Context, level, "remove worker", "address", w.Address, "name", w.Name, "reason", why)
	go s.Pool.Remove(w.Address) // dials are given up, which may take a moment
}
