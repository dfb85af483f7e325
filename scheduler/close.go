package scheduler

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
)

// Close calls Shutdown without a deadline. It may be called more than once.
func (s *Scheduler) Close() error { return s.Shutdown(context.Background()) }

// Shutdown stops the scheduler: it asks workers to close, unless a journal lets them wait for the next scheduler, and
// closes all comms. Messages that cannot be sent before ctx ends, or within two seconds, are dropped.
func (s *Scheduler) Shutdown(ctx context.Context) error { return s.close(ctx, s.cfg.Journal == "") }

func (s *Scheduler) close(ctx context.Context, workersToo bool) error {
	s.life.Lock()
	first := !s.life.closing
	s.life.closing = true
	begun := s.life.begun
	s.life.Unlock()
	if !first {
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(s.done)
	if begun {
		<-s.opened // an idle timeout may close a scheduler while it starts
	}
	s.hooks.Close(ctx)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	if s.inside != nil {
		_ = s.inside.Close()
	}
	if begun {
		s.closeStreams(ctx, workersToo)
	}
	if s.gateway != nil {
		s.gateway.Close(ctx)
	}
	s.cancel()
	s.helpers.Close()
	err := s.server.Close()
	s.serving.Wait()
	s.opener.Close()
	if begun {
		s.loop.Stop()
		<-s.loop.Done()
		s.feed.Flush() // no loop uses it any more
		s.feed.Close()
	}
	s.inspect.Close(ctx)
	if s.spans != nil {
		err = errors.Join(err, s.spans.Close())
	}
	err = errors.Join(err, s.pool.Close(), s.profiles.Close())
	err = errors.Join(err, s.journal.Close())
	s.log.Info("scheduler closed", "id", s.id)
	return err
}

// closeStreams sends the last messages to all peers and waits until they are written or ctx ends.
func (s *Scheduler) closeStreams(ctx context.Context, workersToo bool) {
	streams, err := loop.Ask(ctx, s.loop, func() ([]*peers.Stream, error) {
		var out []*peers.Stream
		s.ending = true
		s.journal.Pause()
		for _, w := range s.workers.ByAddress {
			if w.Stream == nil {
				continue
			}
			if workersToo {
				w.Stream.Send(&message.Close{Reason: "scheduler-close"})
				w.Stream.Send(&message.CloseStream{})
			}
			out = append(out, w.Stream)
		}
		for _, c := range s.clients.ByName {
			if c.Stream != nil {
				out = append(out, c.Stream)
			}
		}
		s.streams.Flush()
		return out, nil
	})
	if err != nil {
		return
	}
	for _, st := range streams {
		st.Out.Finish()
	}
	for _, st := range streams {
		select {
		case <-st.Out.Done():
		case <-ctx.Done():
			return
		}
	}
}
