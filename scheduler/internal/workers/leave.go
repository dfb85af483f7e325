package workers

import (
	"context"
	"log/slog"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
)

// StreamEnded handles the end of a stream. It returns when the loop has handled it.
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
			s.Remove(st.Worker, "worker left", true, false)
		case st.Worker != nil:
			st.Worker.MayReturn = true
			s.Remove(st.Worker, why, false, false)
		case st.Client != nil:
			s.ClientEnded(st)
		}
	})
	if err != nil { // the loop has ended and will not release the stream
		st.Out.Abort(err)
	}
	<-st.Out.Done()
}

// Remove removes a worker: its tasks run elsewhere. It runs in the loop. If safe is set its tasks are not suspected of
// having caused it; if notify is set the worker receives an order to close.
func (s *Workers) Remove(w *peers.Worker, why string, safe, notify bool) {
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
	if !s.Ending() {
		f := s.feed()
		f.Begin(s.Loop.Now())
		f.Lost(w, why, safe, processing, lost)
	}
	event := msgpack.MapOf("action", "remove-worker", "processing-tasks", processing, "lost-tasks", lost, "expected",
		safe, "reason", why)
	s.Topics.Publish(event, w.Address)
	s.Topics.Publish(append(event[:len(event):len(event)], msgpack.Pair{Key: "worker", Value: w.Address}), "all")
	// The remaining workers are notified of the end of a shuffle before they receive its tasks again.
	runs := s.Shuffles.Lose(w.Address)
	ev := &state.RemoveWorker{Worker: w.ID, Safe: safe, Close: notify, Reason: why}
	if w.MayReturn && w.Incarnation != "" && w.Cause == "" && !s.Ending() {
		ev.Await = s.Reattach
	}
	s.Apply(ev)
	if ev.Awaited > 0 {
		s.Log.Warn("keeping data until worker reconnects", "worker", w.Address, "pieces", ev.Awaited, "wait",
			s.Reattach)
		s.probe(w)
	}
	for _, x := range runs {
		s.Shuffles.Restart(x)
	}
	s.Forget(w, why, safe)
}

// Forget removes the data of a worker that the state has removed.
func (s *Workers) Forget(w *peers.Worker, why string, safe bool) {
	if w == nil || s.ByAddress[w.Address] != w {
		return
	}
	s.Workers.Remove(w)
	s.Left(w.Address)
	s.Totals.WorkersRemoved++
	s.Journal.Worker(w.Address, false)
	w.Stream.End()
	s.Loop.Later(func() { // a retired worker
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
	s.Log.Log(s.Context, level, "worker removed", "address", w.Address, "name", w.Name, "reason", why)
	go s.Pool.Remove(w.Address) // canceling dials may take a moment
}
