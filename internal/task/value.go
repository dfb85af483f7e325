package task

import (
	"fmt"
	"reflect"
	"sync"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Value is a result as a worker or client stores it: the live Go value, its frames, or both. Each is created from the
// other when it is first needed. It is safe for concurrent use; its content is immutable. Both forms own their counted
// memory, such as GPU memory: Release releases it.
type Value struct {
	mu       sync.Mutex // owns all below
	live     any
	decoded  bool // live is valid
	released bool // the references of live are released
	encoded  *wire.Serialized
	size     int64 // -1: not computed yet

	remote   Remote        // a copy in another process, or nil
	typeName string        // of a value that is only in another process
	fetching chan struct{} // closed when the frames have been fetched; nil if no caller fetches them
}

// NewValue returns a Value with a live value, and takes over its references to counted memory.
func NewValue(v any) *Value {
	libcodec.Prepare(v)
	return &Value{live: v, decoded: true, size: -1}
}

// NewEncoded returns a Value with frames, of which it takes over the reference of the caller: frames that borrow from a
// message must be retained or cloned before.
func NewEncoded(s *wire.Serialized) *Value { return &Value{encoded: s, size: -1} }

// Live returns the live value if it is present.
func (v *Value) Live() (any, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live, v.decoded
}

// Encoded returns the frames of the value, and creates them if necessary. The Value owns them: retain them to keep
// them. If the value cannot leave its process it returns an *EncodeError.
func (v *Value) Encoded() (*wire.Serialized, error) {
	if err := v.fetchFrames(); err != nil {
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

// Share returns a copy of the Value with its own references to counted memory. The copy must be released separately.
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

// DropEncoded drops the frames if there is a live value, or a copy in another process, to save memory.
func (v *Value) DropEncoded() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if (v.decoded || v.remote != nil) && v.encoded != nil {
		v.encoded.Release()
		v.encoded = nil
	}
}

// AppendBody appends the value to the body of a message, and reports whether it can: see AppendBody.
func (v *Value) AppendBody(dst []byte) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.decoded {
		return dst, false
	}
	return AppendBody(dst, v.live)
}

// Size returns an estimate of the memory of the value in bytes, for the accounts of the scheduler.
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

// Type returns the name of the type of the value, for users and the statistics of the scheduler; "" if it has not been
// decoded.
func (v *Value) Type() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.decoded {
		return v.typeName
	}
	return TypeName(v.live)
}

// As returns the value as a T: the live value, or one that is decoded now and kept. It returns a *TypeError if the
// value has another type. The Value still owns counted memory in it.
func As[T any](v *Value) (T, error) {
	var out T
	if err := v.fetchFrames(); err != nil {
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
	if err := v.fetchFrames(); err != nil {
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

// convert sets dst to a live value: one of its type, or a decoded one, which has a type that represents a Python type.
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
	if lend(live, dst) {
		return nil
	}
	if dst.Type() == objectType { // not decoded: see DecodeInto
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

// lend sets a buffer to the memory of a live device array, or the other way round, and reports whether it did. Both are
// borrowed from the Value.
func lend(live any, dst reflect.Value) bool {
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

// Release releases the references to counted memory of the frames and of the live value. The value must not be used
// afterwards.
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
		live, v.released = v.live, true // kept for current readers: the state of an actor is not counted
	}
	v.mu.Unlock()
	Release(live)
	if r != nil {
		r.Drop()
	}
}
