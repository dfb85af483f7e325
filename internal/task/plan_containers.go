package task

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"

	"go.millstream.dev/internal/wire/msgpack"
)

func pointerPlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	elem := sync.OnceValue(func() *plan { return planOf(t.Elem()) })
	return func(b *Builder, v reflect.Value) error {
			if v.IsNil() {
				b.args = msgpack.AppendNil(b.args)
				return nil
			}
			if err := b.descend(t); err != nil {
				return err
			}
			b.args = append(b.args, 1)
			err := elem().append(b, v.Elem())
			b.depth--
			return err
		}, func(r *reader, v reflect.Value) error {
			if r.TryNil() {
				v.SetZero()
				return nil
			}
			if err := r.descend(); err != nil {
				return err
			}
			if _, err := r.ReadUint(); err != nil {
				return err
			}
			v.Set(reflect.New(t.Elem()))
			err := elem().read(r, v.Elem())
			r.depth--
			return err
		}
}

func slicePlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	if t.Elem().Kind() == reflect.Uint8 && t.Elem() == reflect.TypeFor[byte]() {
		return func(b *Builder, v reflect.Value) error { return appendBytes(b, v.Bytes()) },
			func(r *reader, v reflect.Value) error {
				p, err := r.readBytes()
				v.SetBytes(p)
				return err
			}
	}
	elem := sync.OnceValue(func() *plan { return planOf(t.Elem()) })
	return func(b *Builder, v reflect.Value) error {
			if v.IsNil() {
				b.args = msgpack.AppendNil(b.args)
				return nil
			}
			if v.Len() > math.MaxUint32 {
				return tooLargeError(t)
			}
			b.args = msgpack.AppendArrayHeader(b.args, v.Len())
			return b.items(t, elem(), v)
		}, func(r *reader, v reflect.Value) error {
			if r.TryNil() {
				v.SetZero()
				return nil
			}
			n, err := r.ReadArrayLen() // at most the number of remaining bytes
			if err != nil {
				return err
			}
			if size := int(t.Elem().Size()); size > 0 && n > maxGrow/size {
				return growSlice(r, v, n, elem())
			}
			v.Set(reflect.MakeSlice(t, n, n))
			return r.items(elem(), v)
		}
}

// element encodes an element of a container. An element without bytes, such as a struct{}, is encoded as nil, because
// readers allow no more elements than bytes are left.
func (b *Builder) element(p *plan, v reflect.Value) error {
	before := len(b.args)
	if err := p.append(b, v); err != nil {
		return err
	}
	if len(b.args) == before {
		b.args = msgpack.AppendNil(b.args)
	}
	return nil
}

func (r *reader) element(p *plan, v reflect.Value) error {
	before := r.Remaining()
	if err := p.read(r, v); err != nil {
		return err
	}
	if r.Remaining() == before && !r.TryNil() {
		return &SpecError{Reason: fmt.Sprintf("element of type %v without a byte", v.Type())}
	}
	return nil
}

// maxGrow is how many bytes are allocated at once for a length that a peer announces.
const maxGrow = 1 << 20

// growSlice decodes a long slice and allocates as elements arrive: a byte may represent a large element.
func growSlice(r *reader, v reflect.Value, n int, elem *plan) error {
	if err := r.descend(); err != nil {
		return err
	}
	out := reflect.MakeSlice(v.Type(), 0, 16)
	zero := reflect.Zero(v.Type().Elem())
	for i := range n {
		out = reflect.Append(out, zero)
		if err := r.element(elem, out.Index(i)); err != nil {
			return inPath(err, fmt.Sprintf("[%d]", i))
		}
	}
	v.Set(out)
	r.depth--
	return nil
}

func (b *Builder) items(t reflect.Type, elem *plan, v reflect.Value) error {
	if err := b.descend(t); err != nil {
		return err
	}
	for i := range v.Len() {
		if err := b.element(elem, v.Index(i)); err != nil {
			return inPath(err, fmt.Sprintf("[%d]", i))
		}
	}
	b.depth--
	return nil
}

func (r *reader) items(elem *plan, v reflect.Value) error {
	if err := r.descend(); err != nil {
		return err
	}
	for i := range v.Len() {
		if err := r.element(elem, v.Index(i)); err != nil {
			return inPath(err, fmt.Sprintf("[%d]", i))
		}
	}
	r.depth--
	return nil
}

func arrayPlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	elem := sync.OnceValue(func() *plan { return planOf(t.Elem()) })
	return func(b *Builder, v reflect.Value) error { return b.items(t, elem(), v) },
		func(r *reader, v reflect.Value) error { return r.items(elem(), v) }
}

func mapPlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	key := sync.OnceValue(func() *plan { return planOf(t.Key()) })
	elem := sync.OnceValue(func() *plan { return planOf(t.Elem()) })
	return func(b *Builder, v reflect.Value) error {
			if v.IsNil() {
				b.args = msgpack.AppendNil(b.args)
				return nil
			}
			if err := b.descend(t); err != nil {
				return err
			}
			b.args = msgpack.AppendMapHeader(b.args, v.Len())
			if err := b.encodeSorted(v, key(), elem()); err != nil {
				return err
			}
			b.depth--
			return nil
		}, func(r *reader, v reflect.Value) error {
			if r.TryNil() {
				v.SetZero()
				return nil
			}
			if err := r.descend(); err != nil {
				return err
			}
			n, err := r.ReadMapLen()
			if err != nil {
				return err
			}
			v.Set(reflect.MakeMap(t))
			for range n {
				k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
				if err := r.element(key(), k); err != nil {
					return err
				}
				if !k.Comparable() {
					return &SpecError{Reason: fmt.Sprintf("key of a %v cannot be compared", t)}
				}
				if err := r.element(elem(), x); err != nil {
					return inPath(err, fmt.Sprintf("[%v]", k))
				}
				v.SetMapIndex(k, x)
			}
			r.depth--
			return nil
		}
}

// encodeSorted encodes a map in the order of its encoded keys, so that equal values have equal bytes, and pure tasks
// equal keys.
func (b *Builder) encodeSorted(v reflect.Value, key, elem *plan) error {
	type entry struct {
		key   []byte
		value reflect.Value
	}
	entries := make([]entry, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		from := len(b.args)
		if err := b.element(key, it.Key()); err != nil {
			return err
		}
		entries = append(entries, entry{bytes.Clone(b.args[from:]), it.Value()})
		b.args = b.args[:from]
	}
	slices.SortFunc(entries, func(x, y entry) int { return bytes.Compare(x.key, y.key) })
	for _, e := range entries {
		b.args = append(b.args, e.key...)
		if err := b.element(elem, e.value); err != nil {
			return inPath(err, "[…]")
		}
	}
	return nil
}
