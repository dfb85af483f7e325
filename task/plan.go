package task

import (
	"bytes"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// maxDepth bounds how deeply values are nested: one that contains itself ends here.
const maxDepth = 200

// plan writes and reads arguments of a type by reflection. Plans are made once for each
// type and never change.
type plan struct {
	typ    reflect.Type
	append func(b *Builder, v reflect.Value) error
	read   func(r *reader, v reflect.Value) error // v can be set
}

var plans sync.Map // reflect.Type to *plan

// planOf returns the plan of a type. A type may contain itself, so a plan looks up those of
// its parts when it is first used.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p, _ := plans.LoadOrStore(t, makePlan(t))
	return p.(*plan)
}

// refField is implemented by pointers to Ref.
type refField interface {
	appendRef(b *Builder) error
	readRef(r *reader) error
}

var (
	refType         = reflect.TypeFor[refField]()
	marshalerType   = reflect.TypeFor[encoding.BinaryMarshaler]()
	unmarshalerType = reflect.TypeFor[encoding.BinaryUnmarshaler]()
	timeType        = reflect.TypeFor[time.Time]()
)

func makePlan(t reflect.Type) *plan {
	p := &plan{typ: t}
	pt := reflect.PointerTo(t)
	switch {
	case pt.Implements(refType):
		p.append = func(b *Builder, v reflect.Value) error {
			return addressable(v).Addr().Interface().(refField).appendRef(b)
		}
		p.read = func(r *reader, v reflect.Value) error { return v.Addr().Interface().(refField).readRef(r) }
	case isWire(t):
		p.append, p.read = wirePlan(t)
	case t == reflect.TypeFor[any]():
		p.append, p.read = appendAny, readAny
	case t.Kind() != reflect.Pointer && pt.Implements(marshalerType) && pt.Implements(unmarshalerType):
		p.append, p.read = appendMarshaler, readMarshaler
	default:
		p.append, p.read = kindPlan(t)
	}
	return p
}

// addressable copies a value that has no address, such as one out of a map.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}

func appendMarshaler(b *Builder, v reflect.Value) error {
	data, err := addressable(v).Addr().Interface().(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return &EncodeError{Type: v.Type(), Reason: err.Error()}
	}
	if data == nil {
		data = []byte{}
	}
	return appendBytes(b, data)
}

func readMarshaler(r *reader, v reflect.Value) error {
	data, err := r.ReadBytes()
	if err != nil {
		return err
	}
	return v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(bytes.Clone(data))
}

// kindPlan is for types that are what their kind says.
func kindPlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	switch t.Kind() {
	case reflect.Bool:
		return func(b *Builder, v reflect.Value) error { return appendBool(b, v.Bool()) },
			func(r *reader, v reflect.Value) error {
				x, err := r.ReadBool()
				v.SetBool(x)
				return err
			}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(b *Builder, v reflect.Value) error { return appendInt(b, v.Int()) },
			func(r *reader, v reflect.Value) error {
				x, err := r.ReadInt()
				if err == nil && v.OverflowInt(x) {
					err = fmt.Errorf("%d does not fit into %v", x, t)
				}
				v.SetInt(x)
				return err
			}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(b *Builder, v reflect.Value) error { return appendUint(b, v.Uint()) },
			func(r *reader, v reflect.Value) error {
				x, err := r.ReadUint()
				if err == nil && v.OverflowUint(x) {
					err = fmt.Errorf("%d does not fit into %v", x, t)
				}
				v.SetUint(x)
				return err
			}
	case reflect.Float32, reflect.Float64:
		return func(b *Builder, v reflect.Value) error { return appendFloat(b, v.Float()) },
			func(r *reader, v reflect.Value) error {
				x, err := r.ReadFloat()
				v.SetFloat(x)
				return err
			}
	case reflect.Complex64, reflect.Complex128:
		return func(b *Builder, v reflect.Value) error {
				_ = appendFloat(b, real(v.Complex()))
				return appendFloat(b, imag(v.Complex()))
			}, func(r *reader, v reflect.Value) error {
				re, err := r.ReadFloat()
				if err != nil {
					return err
				}
				im, err := r.ReadFloat()
				v.SetComplex(complex(re, im))
				return err
			}
	case reflect.String:
		return func(b *Builder, v reflect.Value) error { return appendText(b, v.String()) },
			func(r *reader, v reflect.Value) error {
				x, err := r.readText()
				v.SetString(x)
				return err
			}
	case reflect.Pointer:
		return pointerPlan(t)
	case reflect.Slice:
		return slicePlan(t)
	case reflect.Array:
		return arrayPlan(t)
	case reflect.Map:
		return mapPlan(t)
	case reflect.Struct:
		return structPlan(t)
	}
	fail := noForm(t)
	return func(*Builder, reflect.Value) error { return fail }, func(*reader, reflect.Value) error { return fail }
}

// noForm is the error of types that mean something in their own process only.
func noForm(t reflect.Type) error {
	why := "it only means something in its own process"
	if t.Kind() == reflect.Interface {
		why = "of an interface only any can be sent: use a concrete type"
	}
	return &EncodeError{Type: t, Reason: why}
}

// deeper counts levels, on both sides.
func (b *Builder) deeper(t reflect.Type) error {
	if b.depth++; b.depth > maxDepth {
		return &EncodeError{Type: t, Reason: "it is nested too deeply, or contains itself"}
	}
	return nil
}

func (r *reader) deeper() error {
	if r.depth++; r.depth > maxDepth {
		return &SpecError{Reason: "a value is nested too deeply"}
	}
	return nil
}

func pointerPlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	elem := sync.OnceValue(func() *plan { return planOf(t.Elem()) })
	return func(b *Builder, v reflect.Value) error {
			if v.IsNil() {
				b.args = msgpack.AppendNil(b.args)
				return nil
			}
			if err := b.deeper(t); err != nil {
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
			if err := r.deeper(); err != nil {
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
				return tooLarge(t)
			}
			b.args = msgpack.AppendArrayHeader(b.args, v.Len())
			return b.items(t, elem(), v)
		}, func(r *reader, v reflect.Value) error {
			if r.TryNil() {
				v.SetZero()
				return nil
			}
			n, err := r.ReadArrayLen() // never more than there are bytes
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

// maxGrow is what is allocated at once for a promise of a peer.
const maxGrow = 1 << 20

// growSlice reads a long slice by allocating as elements arrive: a byte may stand for a
// large element.
func growSlice(r *reader, v reflect.Value, n int, elem *plan) error {
	if err := r.deeper(); err != nil {
		return err
	}
	out := reflect.MakeSlice(v.Type(), 0, 16)
	zero := reflect.Zero(v.Type().Elem())
	for i := range n {
		out = reflect.Append(out, zero)
		if err := elem.read(r, out.Index(i)); err != nil {
			return inPath(err, fmt.Sprintf("[%d]", i))
		}
	}
	v.Set(out)
	r.depth--
	return nil
}

func (b *Builder) items(t reflect.Type, elem *plan, v reflect.Value) error {
	if err := b.deeper(t); err != nil {
		return err
	}
	for i := range v.Len() {
		if err := elem.append(b, v.Index(i)); err != nil {
			return inPath(err, fmt.Sprintf("[%d]", i))
		}
	}
	b.depth--
	return nil
}

func (r *reader) items(elem *plan, v reflect.Value) error {
	if err := r.deeper(); err != nil {
		return err
	}
	for i := range v.Len() {
		if err := elem.read(r, v.Index(i)); err != nil {
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
			if err := b.deeper(t); err != nil {
				return err
			}
			b.args = msgpack.AppendMapHeader(b.args, v.Len())
			if err := b.sorted(v, key(), elem()); err != nil {
				return err
			}
			b.depth--
			return nil
		}, func(r *reader, v reflect.Value) error {
			if r.TryNil() {
				v.SetZero()
				return nil
			}
			if err := r.deeper(); err != nil {
				return err
			}
			n, err := r.ReadMapLen()
			if err != nil {
				return err
			}
			v.Set(reflect.MakeMap(t))
			for range n {
				k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
				if err := key().read(r, k); err != nil {
					return err
				}
				if !k.Comparable() {
					return &SpecError{Reason: fmt.Sprintf("a key of a %v cannot be compared", t)}
				}
				if err := elem().read(r, x); err != nil {
					return inPath(err, fmt.Sprintf("[%v]", k))
				}
				v.SetMapIndex(k, x)
			}
			r.depth--
			return nil
		}
}

// sorted writes a map in the order of its encoded keys, so that equal values have equal
// bytes, and pure tasks equal keys.
func (b *Builder) sorted(v reflect.Value, key, elem *plan) error {
	type entry struct {
		key   []byte
		value reflect.Value
	}
	entries := make([]entry, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		from := len(b.args)
		if err := key.append(b, it.Key()); err != nil {
			return err
		}
		entries = append(entries, entry{bytes.Clone(b.args[from:]), it.Value()})
		b.args = b.args[:from]
	}
	slices.SortFunc(entries, func(x, y entry) int { return bytes.Compare(x.key, y.key) })
	for _, e := range entries {
		b.args = append(b.args, e.key...)
		if err := elem.append(b, e.value); err != nil {
			return inPath(err, "[…]")
		}
	}
	return nil
}

// field is one field of a struct that travels.
type field struct {
	index int
	name  string
	plan  *plan
}

var structFields sync.Map // reflect.Type to func() ([]field, error)

// fieldsOf lists the fields of a struct that travel: exported ones without the tag
// `task:"-"`. A field that is not exported has no way in or out.
func fieldsOf(t reflect.Type) ([]field, error) {
	f, ok := structFields.Load(t)
	if !ok {
		f, _ = structFields.LoadOrStore(t, sync.OnceValues(func() ([]field, error) { return listFields(t) }))
	}
	return f.(func() ([]field, error))()
}

func listFields(t reflect.Type) ([]field, error) {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("task")
		if tag == "-" {
			continue
		}
		if !f.IsExported() {
			return nil, &EncodeError{Type: t, Path: "." + f.Name,
				Reason: "the field is not exported: export it, leave it out with the tag `task:\"-\"`, or give the type MarshalBinary and UnmarshalBinary"}
		}
		name := f.Name
		if tag != "" {
			name = tag
		}
		out = append(out, field{i, name, planOf(f.Type)})
	}
	return out, nil
}

func structPlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	return func(b *Builder, v reflect.Value) error {
			all, err := fieldsOf(t)
			if err != nil {
				return err
			}
			if err := b.deeper(t); err != nil {
				return err
			}
			for _, f := range all {
				if err := f.plan.append(b, v.Field(f.index)); err != nil {
					return inPath(err, "."+f.name)
				}
			}
			b.depth--
			return nil
		}, func(r *reader, v reflect.Value) error {
			all, err := fieldsOf(t)
			if err != nil {
				return err
			}
			if err := r.deeper(); err != nil {
				return err
			}
			for _, f := range all {
				if err := f.plan.read(r, v.Field(f.index)); err != nil {
					return inPath(err, "."+f.name)
				}
			}
			r.depth--
			return nil
		}
}

// inPath adds where a value stands to the error about it.
func inPath(err error, at string) error {
	if e, ok := err.(*EncodeError); ok {
		c := *e
		c.Path = at + c.Path
		return &c
	}
	if strings.HasPrefix(at, ".") {
		return fmt.Errorf("field %s: %w", at[1:], err)
	}
	return err
}

// isWire tells whether a type is one of package wire's own, or of Arrow, which only it
// knows how to write.
func isWire(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[*wire.NDArray](), reflect.TypeFor[*wire.DeviceArray](), reflect.TypeFor[*wire.Object](),
		reflect.TypeFor[wire.Dict](), reflect.TypeFor[wire.Tuple](), reflect.TypeFor[wire.Set](), reflect.TypeFor[wire.FrozenSet](),
		reflect.TypeFor[wire.ByteArray](), reflect.TypeFor[wire.NaiveTime](), reflect.TypeFor[wire.Date](), reflect.TypeFor[wire.TimeOfDay](),
		bigIntType, arrowTableType, arrowBatchType:
		return true
	}
	return false
}
