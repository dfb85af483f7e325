package task

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/wire"
)

// maxDepth bounds the nesting of values, so that encoding a value that contains itself ends.
const maxDepth = 200

// tooDeep is the error for values beyond maxDepth.
const tooDeep = "the value contains itself, or is nested more than 200 levels deep; use keys or indexes instead " +
	"of pointers"

// plan encodes and decodes arguments of a type by reflection. Plans are created once for each type and never change.
type plan struct {
	typ    reflect.Type
	append func(b *Builder, v reflect.Value) error
	read   func(r *reader, v reflect.Value) error // v can be set
}

var plans sync.Map // reflect.Type to *plan

// planOf returns the plan of a type. A type may contain itself, so that a plan looks up those of its parts when it is
// first used.
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

// addressable copies a value that is not addressable, such as an element of a map.
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

// kindPlan returns the plan of types that are encoded by their kind.
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
	fail := unsupportedType(t)
	return func(*Builder, reflect.Value) error { return fail }, func(*reader, reflect.Value) error { return fail }
}

// unsupportedType returns the error for types that are only valid in their own process.
func unsupportedType(t reflect.Type) error {
	why := fmt.Sprintf("a %v is not valid in another process; omit the field with the tag `task:\"-\"`", t.Kind())
	if t.Kind() == reflect.Interface {
		why = "any is the only interface that can be sent; use a concrete type"
	}
	return &EncodeError{Type: t, Reason: why}
}

// descend counts a nesting level and returns an error beyond maxDepth.
func (b *Builder) descend(t reflect.Type) error {
	if b.depth++; b.depth > maxDepth {
		return &EncodeError{Type: t, Reason: tooDeep}
	}
	return nil
}

func (r *reader) descend() error {
	if r.depth++; r.depth > maxDepth {
		return &SpecError{Reason: "value is nested too deeply"}
	}
	return nil
}

// inPath adds the position of a value to an error.
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

// isWire reports whether a type is one of package wire, or of a codec there, which only package wire can encode.
func isWire(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[*wire.NDArray](), reflect.TypeFor[*wire.DeviceArray](), reflect.TypeFor[*wire.Object](),
		reflect.TypeFor[wire.Dict](), reflect.TypeFor[wire.Tuple](), reflect.TypeFor[wire.Set](),
		reflect.TypeFor[wire.FrozenSet](),
		reflect.TypeFor[wire.ByteArray](), reflect.TypeFor[wire.NaiveTime](), reflect.TypeFor[wire.Date](),
		reflect.TypeFor[wire.TimeOfDay](),
		bigIntType:
		return true
	}
	return slices.Contains(libcodec.Types(), t)
}
