package ucxbench

import (
	"context"
	"time"

	"go.millstream.dev/ucx"
)

// Tags of the benchmark. They depend on the direction, so that a side never receives its own messages.
const (
	tagData    = uint64(0x100) << 32 // + goroutine
	tagControl = uint64(0x200) << 32
	tagIdle    = uint64(0x300) << 32
	fromClient = uint64(1) << 24
)

// to returns the tag of messages that this side sends, from that of messages that it receives.
func (s *side) to(tag uint64) uint64 {
	if !s.args.Server {
		return tag | fromClient
	}
	return tag
}

func (s *side) from(tag uint64) uint64 {
	if s.args.Server {
		return tag | fromClient
	}
	return tag
}

// sync waits until both sides have called it.
func (s *side) sync(ctx context.Context) error {
	r := s.ep.StartRecv(ucx.Bytes(s.control[:8]), s.from(tagControl), ucx.FullMask)
	if err := s.ep.Send(ctx, ucx.Bytes(s.control[8:]), s.to(tagControl)); err != nil {
		r.Cancel()
		return err
	}
	return r.Wait(ctx)
}

func (s *side) tagLatency(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	to, from := s.to(tagData), s.from(tagData)
	send := func(ctx context.Context) error { return s.ep.Send(ctx, out.view, to) }
	recv := func(ctx context.Context) error {
		_, err := s.ep.Recv(ctx, in.view, from, ucx.FullMask)
		return err
	}
	return latency(ctx, !s.args.Server, spec, pingpong{send, recv})
}

func (s *side) tagBandwidth(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	to, from := s.to(tagData), s.from(tagData)
	outs, ins := out.parts(spec), in.parts(spec)
	add := func(b *ucx.Batch, place int) { b.Send(s.ep, outs[place], to) }
	if s.args.Server {
		add = func(b *ucx.Batch, place int) { b.Recv(s.ep, ins[place], from, ucx.FullMask) }
	}
	return bandwidth(ctx, spec, oneWay{
		transfer: func(ctx context.Context, n int) error { return batched(ctx, s.ep.Worker(), n, spec.Window, add) },
		done:     s.sync,
	})
}

func (s *side) tagRate(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	one := func(ctx context.Context, g, n int) error {
		tag, view := s.to(tagData+uint64(g)), out.part(spec, g)
		for range n {
			if err := s.ep.Send(ctx, view, tag); err != nil {
				return err
			}
		}
		return nil
	}
	if s.args.Server {
		one = func(ctx context.Context, g, n int) error {
			tag, view := s.from(tagData+uint64(g)), in.part(spec, g)
			for range n {
				if _, err := s.ep.Recv(ctx, view, tag, ucx.FullMask); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return rate(ctx, spec, one, s.sync)
}

// idle posts a receive, sleeps, and measures the processor time.
func (s *side) idle(ctx context.Context, spec Spec) (Sample, error) {
	var message [8]byte
	r := s.ep.StartRecv(ucx.Bytes(message[:]), s.from(tagIdle), ucx.FullMask)
	waited := make(chan error, 1)
	go func() { waited <- r.Wait(ctx) }()
	if err := s.sync(ctx); err != nil {
		return Sample{}, err
	}
	// Wait for activity of the last messages to end.
	if err := sleep(ctx, 100*time.Millisecond); err != nil {
		return Sample{}, err
	}
	m := startMeter()
	if err := sleep(ctx, time.Duration(spec.Seconds*float64(time.Second))); err != nil {
		return Sample{}, err
	}
	sample := m.stop(0)
	if err := s.ep.Send(ctx, ucx.Bytes(message[:]), s.to(tagIdle)); err != nil {
		return Sample{}, err
	}
	return sample, <-waited
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
