package task

import (
	"fmt"
	"reflect"
	"sync"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Value is a result as a worker or client keeps it: the live Go value, the same in its
// frames, or both. Each is made of the other when it is first needed. Any number of
// goroutines may use it; what it holds is immutable. Both own the counted memory in them, that
// of GPUs say: Release gives it back.
type Value struct {
	mu       sync.Mutex // owns all below
	live     any
	decoded  bool // live is valid
	released bool // the references of live are given back
	encoded  *wire.Serialized
	size     int64 // -1: not known yet

	remote   Remote        // a copy in another process, or nil
	typeName string        // of a value that is only there
	fetching chan struct{} // closed when the frames have come from there; nil if nobody fetches
}

// NewValue holds a live value, and takes over its references to counted memory.
func NewValue(v any) *Value { return &Value{live: v, decoded: true, size: -1} }

// NewEncoded holds a value in its frames, of which it takes over the caller's reference: a
// value that borrows from a message must be retained, or cloned, before.
func NewEncoded(s *wire.Serialized) *Value { return &Value{encoded: s, size: -1} }

// Live returns the live value if it is there already.
func (v *Value) Live() (any, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live, v.decoded
}

// Encoded returns the value in its frames, and makes them if they are not there. They stay
// the Value's: retain them to keep them. A value that has no form outside of its process is
// an *EncodeError.
func (v *Value) Encoded() (*wire.Serialized, error) {
	if err := v.bring(); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.encoded != nil {
		return v.encoded, nil
	}
	if !v.decoded {
		return nil, errGone
	}
	s, err := EncodeValue(v.live)
	if err != nil {
		return nil, err
	}
	v.encoded = s
	return s, nil
}

// Share is the value once more, with references of its own to counted memory: it outlives the
// first one, and is released by itself.
func (v *Value) Share() (*Value, error) {
	v.mu.Lock()
	if v.decoded {
		defer v.mu.Unlock()
		eachCounted(v.live, retain)
		return &Value{live: v.live, decoded: true, size: v.size}, nil
	}
	v.mu.Unlock()
	s, err := v.Retained()
	if err != nil {
		return nil, err
	}
	return NewEncoded(s), nil
}

// DropEncoded forgets the frames if the live value is there, or a copy elsewhere, to save
// memory.
func (v *Value) DropEncoded() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if (v.decoded || v.remote != nil) && v.encoded != nil {
		v.encoded.Release()
		v.encoded = nil
	}
}

// AppendBody appends the value as a message's body can carry it, and tells whether it can:
// see AppendBody.
func (v *Value) AppendBody(dst []byte) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.decoded {
		return dst, false
	}
	return AppendBody(dst, v.live)
}

// Size estimates the memory of the value in bytes, for the scheduler's accounts.
func (v *Value) Size() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.size < 0 {
		if v.decoded {
			v.size = SizeOf(v.live)
		} else if v.encoded != nil {
			v.size = v.encoded.Size()
		}
	}
	return max(v.size, 0)
}

// Type names the value's type for people and for the scheduler's statistics; "" if it has
// not been opened.
func (v *Value) Type() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.decoded {
		return v.typeName
	}
	return TypeName(v.live)
}

// As returns the value as a T: the live one itself, or one that is decoded now and kept. It
// is a *TypeError if the value is something else. Counted memory in it stays the Value's.
func As[T any](v *Value) (T, error) {
	var out T
	if err := v.bring(); err != nil {
		return out, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.decoded {
		if x, ok := v.live.(T); ok {
			return x, nil
		}
		err := convert(v.live, reflect.ValueOf(&out).Elem())
		return out, err
	}
	if v.encoded == nil {
		return out, errGone
	}
	if err := decodeAs(v.encoded, &out, share(v.encoded.Frames)); err != nil {
		return out, err
	}
	v.live, v.decoded = out, true
	return out, nil
}

// into is As by reflection.
func (v *Value) into(dst reflect.Value) error {
	if err := v.bring(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.decoded {
		return convert(v.live, dst)
	}
	if v.encoded == nil {
		return errGone
	}
	if err := decodeInto(v.encoded, dst, share(v.encoded.Frames)); err != nil {
		return err
	}
	v.live, v.decoded = dst.Interface(), true
	return nil
}

// convert sets dst to a live value: one of its type, or one that came out of a message and
// so has the type that stands for Python's.
func convert(live any, dst reflect.Value) error {
	if live == nil && dst.Type() != objectType {
		switch dst.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
			dst.SetZero()
			return nil
		}
		return &TypeError{Want: dst.Type().String(), Got: "nothing (None)"}
	}
	if lv := reflect.ValueOf(live); live != nil && lv.Type().AssignableTo(dst.Type()) {
		dst.Set(lv)
		return nil
	}
	if lent(live, dst) {
		return nil
	}
	if dst.Type() == objectType { // it stays closed: see DecodeInto
		s, err := EncodeValue(live)
		if err != nil {
			return err
		}
		return decodeInto(s, dst, wire.Clone)
	}
	if err := fromTree(live, dst, 0); err != nil {
		return &TypeError{Want: dst.Type().String(), Got: fmt.Sprintf("a %T", live), Err: err}
	}
	return nil
}

// lent sets a buffer to the memory of a live device array, or the other way round, and tells whether
// they are that: both are borrowed from the Value.
func lent(live any, dst reflect.Value) bool {
	switch x := live.(type) {
	case *wire.DeviceArray:
		if dst.Type() == bufferType && x.Buffer() != nil {
			dst.Set(reflect.ValueOf(x.Buffer()))
			return true
		}
	case *mem.Buffer:
		if dst.Type() == deviceArrayType {
			dst.Set(reflect.ValueOf(bufferArray(x)))
			return true
		}
	}
	return false
}

// Release gives the references to counted memory back, of the frames and of the live value. The
// value must not be used after it.
func (v *Value) Release() {
	v.mu.Lock()
	r := v.remote
	v.remote = nil
	if v.encoded != nil {
		v.encoded.Release()
		v.encoded = nil
	}
	var live any
	if v.decoded && !v.released {
		live, v.released = v.live, true // it stays for those who look at it still: an actor's is not counted
	}
	v.mu.Unlock()
	Release(live)
	if r != nil {
		r.Drop()
	}
}
