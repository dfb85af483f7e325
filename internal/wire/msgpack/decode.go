package msgpack

import "fmt"

// DefaultMaxDepth is the default nesting limit, that of msgpack for Python.
const DefaultMaxDepth = 1024

// Decoder decodes values. Its zero value is ready to use.
type Decoder struct {
	// MaxDepth bounds the nesting of arrays and maps (default 1024, as in Python).
	MaxDepth int
	// Share makes []byte values share the input's memory instead of copying it.
	Share bool
	// Hook, if set, replaces each map by its result, inner maps first, like Python's object_hook.
	Hook func(m Map) (any, error)
}

// Decode decodes the only value in b, without sharing memory with it.
func Decode(b []byte) (any, error) { return new(Decoder).Decode(b) }

// Decode decodes the only value in b.
func (d *Decoder) Decode(b []byte) (any, error) {
	r := NewReader(b)
	v, err := d.Read(&r)
	if err != nil {
		return nil, err
	}
	return v, r.End()
}

// Read decodes the next value of r.
func (d *Decoder) Read(r *Reader) (any, error) {
	t := tree{Decoder: d, r: r, depth: d.MaxDepth}
	if t.depth <= 0 {
		t.depth = DefaultMaxDepth
	}
	return t.value(false)
}

// tree is the state of one Read.
type tree struct {
	*Decoder
	r     *Reader
	depth int // levels that are left
	// owed is the number of values that enclosing containers still announce. Each needs a byte, so their sum never
	// exceeds the remaining bytes: allocations for containers follow the received bytes, however they nest.
	owed int
}

func (t *tree) value(key bool) (any, error) {
	r := t.r
	switch r.Kind() {
	case Nil:
		return nil, r.ReadNil()
	case Bool:
		return r.ReadBool()
	case Int:
		v, neg, err := r.integer()
		if v < 0 && !neg {
			return uint64(v), err
		}
		return v, err
	case Float:
		return r.ReadFloat()
	case Str:
		return r.ReadString()
	case Bin:
		b, err := r.ReadBytes()
		if err == nil && !t.Share {
			b = append(make([]byte, 0, len(b)), b...)
		}
		return b, err
	case Array:
		return t.array(key)
	case MapKind:
		if key {
			return nil, r.errorf("map as the key of a map")
		}
		return t.mapping()
	}
	return nil, r.wrong(Invalid)
}

// enter counts one container with n values.
func (t *tree) enter(n int) error {
	if t.depth == 0 {
		return t.r.errorf("arrays and maps are nested too deeply")
	}
	if n > t.r.Remaining()-t.owed {
		return t.r.errorf("%d more values announced, and %d bytes are left", n+t.owed, t.r.Remaining())
	}
	t.depth--
	t.owed += n
	return nil
}

func (t *tree) array(key bool) (any, error) {
	n, err := t.r.ReadArrayLen()
	if err != nil {
		return nil, err
	}
	if err := t.enter(n); err != nil {
		return nil, err
	}
	out := make([]any, n)
	for i := range out {
		t.owed--
		if out[i], err = t.value(key); err != nil {
			return nil, err
		}
	}
	t.depth++
	return out, nil
}

func (t *tree) mapping() (any, error) {
	n, err := t.r.ReadMapLen()
	if err != nil {
		return nil, err
	}
	if err := t.enter(2 * n); err != nil {
		return nil, err
	}
	out := make(Map, n)
	for i := range out {
		t.owed--
		if out[i].Key, err = t.value(true); err != nil {
			return nil, err
		}
		t.owed--
		if out[i].Value, err = t.value(false); err != nil {
			return nil, err
		}
	}
	t.depth++
	if t.Hook == nil {
		return out, nil
	}
	v, err := t.Hook(out)
	if err != nil {
		return nil, fmt.Errorf("msgpack: map that ends at byte %d: %w", t.r.pos, err)
	}
	return v, nil
}
