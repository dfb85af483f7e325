package member

import (
	"cmp"
	"fmt"

	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Column is a column of a partition in memory of the caller.
type Column struct {
	Data   uintptr
	Count  uint64
	Kind   clique.Kind
	Memory Memory
}

// Algorithm is a call of an algorithm of a shared library; see package native.
type Algorithm struct {
	// Library is the path of the library, Name that of the function.
	Library, Name string
	// Partitions are those of this rank.
	Partitions [][]Column
	Parameters []byte
	// Stream is the CUstream that orders columns in device memory; 0 is that of SetStream.
	Stream uintptr
}

// Native runs an algorithm on this rank and returns the columns that it has emitted. All ranks call it. If it fails on
// one rank, the clique ends with an error that names the rank, because the others may wait for it.
func (m *Member) Native(a Algorithm) ([]native.Result, error) {
	r, err := m.Rank()
	if err != nil {
		return nil, err
	}
	out, err := m.native(r, &a)
	if err != nil {
		r.Abort(err)
	}
	return out, err
}

func (m *Member) native(r *clique.Rank, a *Algorithm) ([]native.Result, error) {
	library, err := native.Open(a.Library)
	if err != nil {
		return nil, fmt.Errorf("member: %w", err)
	}
	f, err := library.Algorithm(a.Name)
	if err != nil {
		return nil, fmt.Errorf("member: %w", err)
	}
	call := native.Call{Parameters: a.Parameters}
	defer func() {
		for _, p := range call.Partitions {
			for _, c := range p {
				if c.Data != nil {
					c.Data.Release()
				}
			}
		}
	}()
	stream := cmp.Or(a.Stream, uintptr(m.stream.Load()))
	for i, columns := range a.Partitions {
		p := make(native.Partition, len(columns))
		call.Partitions = append(call.Partitions, p)
		for j, c := range columns {
			b, why := c.buffer(fmt.Sprintf("column %d of partition %d", j, i), r, stream)
			if why != "" {
				return nil, fmt.Errorf("member: %w: %s", ErrInvalid, why)
			}
			p[j] = native.Column{Kind: c.Kind, Data: b}
			if b != nil && b.Kind() == mem.Device && stream != 0 && call.Stream == nil {
				call.Stream = cuda.StreamFromHandle(b.Device(), stream)
			}
		}
	}
	ctx, cancel := m.bounded()
	defer cancel()
	return f.Run(ctx, r, call)
}

// buffer returns the memory of a column, nil for none, or why it is invalid.
func (c *Column) buffer(name string, r *clique.Rank, stream uintptr) (b *mem.Buffer, why string) {
	switch {
	case !c.Kind.Valid():
		return nil, fmt.Sprintf("%s: unknown element type %d", name, uint8(c.Kind))
	case c.Memory < Any || c.Memory > Device:
		return nil, fmt.Sprintf("%s: unknown memory %d", name, c.Memory)
	}
	at := place{o: &Operation{Kind: c.Kind, Memory: c.Memory}, device: max(r.Device(), 0)}
	b, why = at.buffer(name, c.Data, extent{c.Count, 1})
	if why == "" && at.known {
		u := use{send: b}
		if why = u.order(at.device, stream); why != "" {
			b.Release()
			return nil, why
		}
	}
	return b, why
}
