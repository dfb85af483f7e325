// Package pickled reads pickles that messages carry undecoded.
package pickled

import (
	"fmt"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Tree parses a pickle into an inert tree: nothing in it is executed.
func Tree(p *wire.Pickled, lim pickle.Limits) (pickle.Value, error) {
	p, err := p.Open(wire.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	bufs := make([][]byte, len(p.Buffers))
	for i, f := range p.Buffers {
		if f.OnDevice() {
			return nil, fmt.Errorf("wire: buffer %d of a pickle is in GPU memory, want host memory", i)
		}
		bufs[i] = f.Bytes()
	}
	return pickle.Load(p.Data, bufs, lim)
}

// Of returns the pickle of a value of the family "pickle", with its buffers: decompressed and joined, but not parsed.
// It borrows from s if nothing was compressed.
func Of(s *wire.Serialized, opt wire.DecodeOptions) (*wire.Pickled, error) {
	o, err := s.Object(opt)
	if err != nil {
		return nil, err
	}
	if family := o.Header.GetString("serializer"); family != "pickle" || o.Header.Has("is-collection") {
		return nil, fmt.Errorf("wire: data in family %.40q, not a pickle", family)
	}
	if len(o.Frames) == 0 || o.Frames[0].OnDevice() {
		return nil, fmt.Errorf("wire: family pickle without a frame in host memory")
	}
	return &wire.Pickled{Data: o.Frames[0].Bytes(), Buffers: o.Frames[1:]}, nil
}
