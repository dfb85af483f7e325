package collective

import (
	"slices"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// resolvedPlan is a plan with its memory. It holds the views until enqueue has passed them to the device.
type resolvedPlan struct {
	copies [][2]*mem.Buffer // target, source
	folds  []resolvedFold
	ranks  int
}

type resolvedFold struct {
	srcs, dsts []*mem.Buffer
	scales     []uint64 // scales of srcs
}

// resolve finds and opens the memory of a plan. It enqueues nothing.
func (r *resolver) resolve(p plan) (e *resolvedPlan, err error) {
	e = &resolvedPlan{ranks: len(r.infos)}
	defer func() {
		if err != nil {
			e.release()
		}
	}()
	list := func(places []place, to *[]*mem.Buffer) error {
		for _, q := range places {
			b, err := r.view(q)
			if err != nil {
				return err
			}
			*to = append(*to, b)
		}
		return nil
	}
	for _, f := range p.folds {
		var x resolvedFold
		for _, q := range f.srcs {
			x.scales = append(x.scales, r.infos[q.rank].scale)
		}
		err = list(f.srcs, &x.srcs)
		if err == nil {
			err = list(f.dsts, &x.dsts)
		}
		e.folds = append(e.folds, x)
		if err != nil {
			return e, err
		}
	}
	for _, s := range p.copies {
		var pair []*mem.Buffer
		if err = list([]place{s.dst, s.src}, &pair); err != nil {
			e.copies = append(e.copies, [2]*mem.Buffer{append(pair, nil)[0], nil})
			return e, err
		}
		e.copies = append(e.copies, [2]*mem.Buffer{pair[0], pair[1]})
	}
	return e, nil
}

func (e *resolvedPlan) release() {
	drop := func(b *mem.Buffer) {
		if b != nil {
			b.Release()
		}
	}
	for _, p := range e.copies {
		drop(p[0])
		drop(p[1])
	}
	for _, f := range e.folds {
		for _, b := range slices.Concat(f.srcs, f.dsts) {
			drop(b)
		}
	}
	*e = resolvedPlan{}
}

// enqueue passes the work to the device and returns its last event, nil if there was nothing to do.
func (e *resolvedPlan) enqueue(dev gpu, c *Call) (last mem.Event, err error) {
	defer e.release()
	for _, x := range e.folds {
		f := foldCall{count: uint64(x.srcs[0].Len() / c.Kind.Size()), sources: uint32(len(x.srcs)),
			targets: uint32(len(x.dsts)), ranks: uint32(e.ranks)}
		for i, b := range x.srcs {
			f.source[i], f.scale[i] = uint64(b.Addr()), x.scales[i]
		}
		for i, b := range x.dsts {
			f.target[i] = uint64(b.Addr())
		}
		if last, err = dev.fold(c.Kind, elem.CodeOf(c.Op), &f, x.srcs, x.dsts); err != nil {
			return nil, err
		}
	}
	for _, p := range e.copies {
		if p[0].Addr() == p[1].Addr() {
			continue // in place
		}
		if last, err = dev.copy(p[0], p[1]); err != nil {
			return nil, err
		}
	}
	return last, nil
}
