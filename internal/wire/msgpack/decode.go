package msgpack

import "fmt"

// DefaultMaxDepth is the nesting that Python's msgpack reads, and ours by default.
const DefaultMaxDepth = 1024

// Decoder builds values. Its zero value is ready.
type Decoder struct {
	// MaxDepth bounds the nesting of arrays and maps (default 1024, Python's).
	MaxDepth int
	// Share makes []byte values share the memory that is read instead of copying it.
	Share bool
	// Hook, if set, replaces each map by what it returns, inner maps first, like
	// Python's object_hook.
	Hook func(m Map) (any, error)
}

// Decode builds the one value that is encoded in b, without sharing memory with it.
func Decode(b []byte) (any, error) { return new(Decoder).Decode(b) }

// Decode builds the one value that is encoded in b.
func (d *Decoder) Decode(b []byte) (any, error) {
	r := NewReader(b)
	v, err := d.Read(&r)
	if err != nil {
		return nil, err
	}
	return v, r.End()
}

// Read builds the next value of r.
func (d *Decoder) Read(r *Reader) (any, error) {
	t := tree{Decoder: d, r: r, depth: d.MaxDepth}
	if t.depth <= 0 {
		t.depth = DefaultMaxDepth
	}
	return t.value(false)
}

// tree is one Read.
type tree struct {
	*Decoder
	r     *Reader
	depth int // levels that are left
	// owed are the values that containers around the current one still promise. Each
	// needs a byte, so that their sum is never more than the bytes left: what is
	// allocated for containers follows the bytes that are there, however they nest.
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
			return nil, r.errorf("a map is the key of a map")
		}
		return t.mapping()
	}
	return nil, r.wrong(Invalid)
}

// enter counts one container with n values to come.
func (t *tree) enter(n int) error {
	if t.depth == 0 {
		return t.r.errorf("arrays and maps are nested too deeply")
	}
	if n > t.r.Remaining()-t.owed {
		return t.r.errorf("%d values to come, and %d bytes are left", n+t.owed, t.r.Remaining())
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
		return nil, fmt.Errorf("msgpack: the map that ends at byte %d: %w", t.r.pos, err)
	}
	return v, nil
}
