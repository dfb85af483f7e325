package ucxbench

import (
	"context"
	"time"

	"go.millstream.dev/internal/device/cucount"
	"go.millstream.dev/ucx"
)

// ipcMap is the case that counts how often one process opens device memory of the other.
const ipcMap = "ipc-map"

// ipcMap transfers device memory three times: once from one buffer, as a warm-up of connection and pool, then twice
// from another buffer. A library in front of the driver counts the calls that open memory of another process; see
// package cucount.
func (s *side) ipcMap(ctx context.Context, spec Spec) (Sample, error) {
	calls, err := cucount.Open()
	if err != nil {
		return Sample{}, err
	}
	defer calls.Close()
	from, err := s.deviceMemory(spec)
	if err != nil {
		return Sample{}, err
	}
	sample := Sample{Operations: 1}
	var held []*payload
	defer func() {
		for _, p := range held {
			p.release()
		}
	}()
	for buffer, transfers := range []int{1, 2} {
		p, err := newPayload(ctx, spec.Mem, spec.Size, from, nil)
		if err != nil {
			return Sample{}, err
		}
		held = append(held, p) // kept, so that the next payload has another address
		for range transfers {
			spec.Seed++
			step, err := s.transfer(ctx, calls, p, spec.Seed)
			if err != nil {
				return Sample{}, err
			}
			sample.Steps = append(sample.Steps, step)
			if buffer == 1 {
				sample.Seconds += step.Seconds
			}
		}
	}
	return sample, nil
}

// transfer sends one payload from client to server and returns the time and the mappings.
func (s *side) transfer(ctx context.Context, calls *cucount.Reader, p *payload, seed uint64) (Step, error) {
	prepare := p.clear
	if !s.args.Server {
		prepare = func() error { return p.fill(seed) }
	}
	if err := prepare(); err != nil {
		return Step{}, err
	}
	if err := s.sync(ctx); err != nil {
		return Step{}, err
	}
	before, err := calls.Read()
	if err != nil {
		return Step{}, err
	}
	begin := time.Now()
	if s.args.Server {
		_, err = s.ep.Recv(ctx, p.view, s.from(tagData), ucx.FullMask)
	} else {
		err = s.ep.Send(ctx, p.view, s.to(tagData))
	}
	if err == nil {
		err = s.sync(ctx) // the data has arrived
	}
	took := time.Since(begin).Seconds()
	if err != nil {
		return Step{}, err
	}
	after, err := calls.Read()
	if err != nil {
		return Step{}, err
	}
	if s.args.Server {
		if err := p.check(seed); err != nil {
			return Step{}, err
		}
	}
	return Step{Seconds: took, Mappings: after.Since(before).Mappings()}, s.sync(ctx)
}
