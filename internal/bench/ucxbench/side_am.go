package ucxbench

import (
	"context"

	"go.millstream.dev/ucx"
)

// amData is the active-message ID of the benchmark.
const amData = 7

func (s *side) amLatency(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	return latency(ctx, !s.args.Server, spec, pingpong{
		send: func(ctx context.Context) error {
			return s.ep.SendAM(ctx, amData, nil, ucx.AMOptions{}, out.view)
		},
		recv: func(ctx context.Context) error {
			m, err := s.worker.RecvAM(ctx, amData)
			if err != nil {
				return err
			}
			return m.Recv(ctx, in.view)
		},
	})
}

// amBandwidth receives messages in order, with the data of a window of them in flight.
func (s *side) amBandwidth(ctx context.Context, spec Spec, out, in *payload) (Sample, error) {
	transfer := func(ctx context.Context, n int) error {
		return windowed(ctx, n, spec.Window, func(place int) *ucx.Request {
			return s.ep.StartSendAM(amData, nil, ucx.AMOptions{}, out.part(spec, place))
		})
	}
	if s.args.Server {
		transfer = func(ctx context.Context, n int) error {
			ring := make([]*ucx.Request, spec.Window)
			for i := range n {
				m, err := s.worker.RecvAM(ctx, amData)
				if err != nil {
					return err
				}
				place := i % spec.Window
				if ring[place] != nil {
					if err := ring[place].Wait(ctx); err != nil {
						return err
					}
				}
				ring[place] = m.StartRecv(in.part(spec, place))
			}
			return drain(ctx, ring)
		}
	}
	return bandwidth(ctx, spec, oneWay{transfer: transfer, done: s.sync})
}
