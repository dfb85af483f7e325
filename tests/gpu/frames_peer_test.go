package gpu

import (
	"context"
	"fmt"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// makeFrames allocates and fills frames, and returns their views.
func makeFrames(ctx context.Context, specs []frameSpec) (views []ucx.View, blocks []*block, err error) {
	for _, f := range specs {
		b, err := newFilled(ctx, f.Kind, f.N, f.Seed)
		if err != nil {
			return nil, nil, err
		}
		views, blocks = append(views, b.view()), append(blocks, b)
	}
	return views, blocks, nil
}

func (p *peer) sendFrames(ctx context.Context, o order) error {
	views, blocks, err := makeFrames(ctx, o.Frames)
	if err != nil {
		return err
	}
	if err := p.endpoint(o).SendFrames(ctx, views...); err != nil {
		return err
	}
	for i, b := range blocks {
		if err := b.check(ctx, o.Frames[i].Seed); err != nil {
			return err
		}
		b.release()
	}
	return nil
}

func (p *peer) recvFrames(ctx context.Context, o order) error {
	return takeFrames(ctx, p.endpoint(o), o.Host, o.Device, o.Frames)
}

// takeFrames receives a message into guarded memory of the kinds asked for and checks everything.
func takeFrames(ctx context.Context, ep *ucx.Endpoint, host, onDevice string, want []frameSpec) error {
	var alloc ucx.Allocators
	groups := map[mem.Kind]*guarded{}
	for _, at := range []struct {
		kind string
		to   *mem.Resource
	}{{host, &alloc.Host}, {onDevice, &alloc.Device}} {
		if at.kind == "" {
			continue
		}
		from, err := resource(at.kind)
		if err != nil {
			return err
		}
		g := &guarded{from: from}
		defer g.release()
		*at.to, groups[from.Kind()] = g, g
	}
	frames, err := ep.RecvFrames(ctx, alloc)
	if err != nil {
		return err
	}
	defer frames.Release()
	if len(frames) != len(want) {
		return fmt.Errorf("%d frames, want %d", len(frames), len(want))
	}
	for i, f := range frames {
		if err := checkPlace(f, want[i], alloc); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		g := groups[f.Kind()]
		if g == nil {
			g = &guarded{}
		}
		if err := g.checkFrame(ctx, f, want[i].Seed); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
	}
	return nil
}

// checkPlace compares a frame's length and the kind of its memory with what was asked for.
func checkPlace(f *mem.Buffer, want frameSpec, alloc ucx.Allocators) error {
	sent, err := resource(want.Kind)
	if err != nil {
		return err
	}
	kind := mem.Host
	if alloc.Host != nil {
		kind = alloc.Host.Kind()
	}
	if k := sent.Kind(); (k == mem.Device || k == mem.Managed) && alloc.Device != nil {
		kind = alloc.Device.Kind()
	}
	if f.Len() != want.N || f.Kind() != kind {
		return fmt.Errorf("%v, want %d bytes of %s memory", f, want.N, kind)
	}
	return nil
}
