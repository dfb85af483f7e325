package ucxbench

import (
	"context"

	"go.millstream.dev/ucx"
)

func (s *side) streamLatency(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	return latency(ctx, !s.args.Server, spec, pingpong{
		send: func(ctx context.Context) error { return s.ep.SendStream(ctx, out.view) },
		recv: func(ctx context.Context) error {
			_, err := s.ep.RecvStream(ctx, in.view, true)
			return err
		},
	})
}

func (s *side) streamBandwidth(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	start := func(place int) *ucx.Request { return s.ep.StartSendStream(out.part(spec, place)) }
	if s.args.Server {
		start = func(place int) *ucx.Request { return s.ep.StartRecvStream(in.part(spec, place), true) }
	}
	return bandwidth(ctx, spec, oneWay{
		transfer: func(ctx context.Context, n int) error { return windowed(ctx, n, spec.Window, start) },
		done:     s.sync,
	})
}
