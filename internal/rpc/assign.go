package rpc

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// ArgumentError is returned for an argument that a handler cannot accept. Python peers see a TypeError.
type ArgumentError struct {
	// Op and Name are the op and the argument.
	Op, Name string
	// Reason describes the problem.
	Reason string
}

func (e *ArgumentError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: %s", e.Op, e.Reason)
	}
	return fmt.Sprintf("%s: argument %q: %s", e.Op, e.Name, e.Reason)
}

// param is one field of a struct of arguments.
type param struct {
	name     string
	index    []int
	optional bool
}

var paramsOf sync.Map // of reflect.Type to []param

// params parses the tags of a struct: `rpc:"name"` or `rpc:"name,optional"`; without a tag the field's name in snake
// case; `rpc:"-"` leaves it out. Pointers are optional.
func params(t reflect.Type) []param {
	if p, ok := paramsOf.Load(t); ok {
		return p.([]param)
	}
	var out []param
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("rpc"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			name = snake(f.Name)
		}
		out = append(out, param{name, f.Index, option == "optional" || f.Type.Kind() == reflect.Pointer})
	}
	paramsOf.Store(t, out)
	return out
}

func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r >= 'A' && r <= 'Z' {
			if i > 0 && !(s[i-1] >= 'A' && s[i-1] <= 'Z') {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// control reports whether a key of a request is not an argument of its handler.
func control(name string) bool {
	return name == "op" || name == "reply" || name == "close" || name == "serializers"
}

// Args decodes the arguments into a struct: see Handle for its tags. As in Python a missing argument is an error unless
// it is optional, and so is an unknown one. A msgpack.Map receives all of them.
func (b *Body) Args(v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("rpc: Args needs a pointer to a struct, not a %T", v)
	}
	target = target.Elem()
	if m, ok := v.(*msgpack.Map); ok {
		all, err := b.Values()
		*m = all
		return err
	}
	if target.Kind() != reflect.Struct {
		return fmt.Errorf("rpc: Args needs a pointer to a struct, not a %T", v)
	}
	list := params(target.Type())
	seen := make([]bool, len(list))
	for name, raw := range b.Fields() {
		i := indexOf(list, name)
		if i < 0 && control(name) {
			continue
		}
		if i < 0 {
			return &ArgumentError{b.Op, name, "unexpected keyword argument"}
		}
		seen[i] = true
		if err := b.field(name, raw, target.FieldByIndex(list[i].index)); err != nil {
			return &ArgumentError{b.Op, name, err.Error()}
		}
	}
	for i, p := range list {
		if !seen[i] && !p.optional {
			return &ArgumentError{b.Op, p.name, "missing a required argument"}
		}
	}
	return nil
}

func indexOf(list []param, name string) int {
	for i, p := range list {
		if p.name == name {
			return i
		}
	}
	return -1
}

// Arg decodes one argument. It reports whether it is present.
func (b *Body) Arg(name string, v any) (bool, error) {
	raw, ok := b.Field(name)
	if !ok {
		return false, nil
	}
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return true, fmt.Errorf("rpc: Arg needs a pointer, not a %T", v)
	}
	if err := b.field(name, raw, target.Elem()); err != nil {
		return true, &ArgumentError{b.Op, name, err.Error()}
	}
	return true, nil
}

var rawType = reflect.TypeFor[msgpack.Raw]()

func (b *Body) field(name string, raw []byte, target reflect.Value) error {
	if target.Type() == rawType {
		target.SetBytes(raw)
		return nil
	}
	all, err := b.decode()
	if err != nil {
		return err
	}
	v, _ := all.Get(name)
	return assign(v, target)
}

// Assign sets what to points to from a decoded value, as Call does with a reply. A map is decoded into a struct, see
// Handle for its tags: unknown keys are skipped, and fields without a key are left unchanged. Decoded values borrow
// from v.
func Assign(v, to any) error {
	target := reflect.ValueOf(to)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("rpc: Assign needs a pointer, not a %T", to)
	}
	return assign(v, target.Elem())
}

var durationType = reflect.TypeFor[time.Duration]()

// assign stores a decoded value in a Go variable.
func assign(v any, target reflect.Value) error {
	if v == nil {
		target.SetZero()
		return nil
	}
	if t := reflect.TypeOf(v); t.AssignableTo(target.Type()) {
		target.Set(reflect.ValueOf(v))
		return nil
	}
	if target.Type() == durationType {
		return assignSeconds(v, target)
	}
	mismatch := func() error { return fmt.Errorf("got %s, want %v", kindOf(v), target.Type()) }
	switch target.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(target.Type().Elem())
		if err := assign(v, fresh.Elem()); err != nil {
			return err
		}
		target.Set(fresh)
	case reflect.Bool:
		x, ok := v.(bool)
		if !ok {
			return mismatch()
		}
		target.SetBool(x)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		x, ok := v.(int64)
		if !ok {
			return mismatch()
		}
		if target.OverflowInt(x) {
			return fmt.Errorf("%d does not fit into %v", x, target.Type())
		}
		target.SetInt(x)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		x, ok := v.(uint64)
		if i, isInt := v.(int64); isInt {
			if i < 0 {
				return fmt.Errorf("%d does not fit into %v", i, target.Type())
			}
			x, ok = uint64(i), true
		}
		if !ok {
			return mismatch()
		}
		if target.OverflowUint(x) {
			return fmt.Errorf("%d does not fit into %v", x, target.Type())
		}
		target.SetUint(x)
	case reflect.Float32, reflect.Float64:
		x, ok := number(v)
		if !ok {
			return mismatch()
		}
		target.SetFloat(x)
	case reflect.String:
		x, ok := v.(string)
		if !ok {
			return mismatch()
		}
		target.SetString(x)
	case reflect.Slice:
		return assignSlice(v, target, mismatch)
	case reflect.Map:
		return assignMap(v, target, mismatch)
	case reflect.Struct:
		return assignStruct(v, target, mismatch)
	default:
		return mismatch()
	}
	return nil
}

func number(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	}
	return 0, false
}

// assignSeconds converts a time in Dask's form: a number of seconds.
func assignSeconds(v any, target reflect.Value) error {
	x, ok := number(v)
	if !ok {
		return fmt.Errorf("got %s, want a number of seconds", kindOf(v))
	}
	d := x * float64(time.Second)
	if math.IsNaN(d) || math.Abs(d) > math.MaxInt64 {
		return fmt.Errorf("%v seconds are out of range", x)
	}
	target.SetInt(int64(d))
	return nil
}

func assignSlice(v any, target reflect.Value, mismatch func() error) error {
	if b, ok := v.([]byte); ok && target.Type().Elem().Kind() == reflect.Uint8 {
		target.SetBytes(b)
		return nil
	}
	items, ok := listOf(v)
	if !ok {
		return mismatch()
	}
	out := reflect.MakeSlice(target.Type(), len(items), len(items))
	for i, x := range items {
		if err := assign(x, out.Index(i)); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	target.Set(out)
	return nil
}

// listOf returns the elements that Python would iterate over.
func listOf(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case wire.Tuple:
		return v, true
	case wire.Set:
		return v, true
	case wire.FrozenSet:
		return v, true
	}
	return nil, false
}

func assignMap(v any, target reflect.Value, mismatch func() error) error {
	m, ok := v.(msgpack.Map)
	if !ok {
		return mismatch()
	}
	t := target.Type()
	out := reflect.MakeMapWithSize(t, len(m))
	for _, p := range m {
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if err := assign(p.Key, key); err != nil {
			return fmt.Errorf("key %s: %w", brief(p.Key), err)
		}
		if !key.Comparable() {
			return fmt.Errorf("key %s cannot be the key of a %v", brief(p.Key), t)
		}
		if err := assign(p.Value, value); err != nil {
			return fmt.Errorf("value of %s: %w", brief(p.Key), err)
		}
		out.SetMapIndex(key, value)
	}
	target.Set(out)
	return nil
}

// brief formats a value of a peer for a message, with bounded length.
func brief(v any) string { return fmt.Sprintf("%.40s", fmt.Sprint(v)) }

// assignStruct is lenient where Args is strict: replies get new keys with every release.
func assignStruct(v any, target reflect.Value, mismatch func() error) error {
	m, ok := v.(msgpack.Map)
	if !ok {
		return mismatch()
	}
	for _, p := range params(target.Type()) {
		x, ok := m.Get(p.name)
		if !ok {
			continue
		}
		if err := assign(x, target.FieldByIndex(p.index)); err != nil {
			return fmt.Errorf("%q: %w", p.name, err)
		}
	}
	return nil
}

func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "a bool"
	case int64, uint64:
		return "an int"
	case float64:
		return "a float"
	case string:
		return "a string"
	case []byte:
		return "bytes"
	case []any:
		return "a list"
	case msgpack.Map:
		return "a dict"
	}
	return fmt.Sprintf("a %T", v)
}

// outgoing converts a value to its form on the wire: times are seconds in Dask, and structs with rpc tags are maps.
// Elements of lists and maps are not converted.
func outgoing(v any) any {
	x := reflect.ValueOf(v)
	for x.Kind() == reflect.Pointer {
		if x.IsNil() {
			return nil
		}
		if e := x.Elem(); e.Kind() == reflect.Struct && !tagged(e.Type()) {
			return v // a value of package wire, or one that cannot be sent
		}
		x = x.Elem()
	}
	switch {
	case !x.IsValid():
		return nil
	case x.Type() == durationType:
		return time.Duration(x.Int()).Seconds()
	case tagged(x.Type()):
		return structMap(x)
	}
	return x.Interface()
}

// structMap converts a struct to a map. Optional fields that are zero are left out.
func structMap(x reflect.Value) msgpack.Map {
	var m msgpack.Map
	for _, p := range params(x.Type()) {
		f := x.FieldByIndex(p.index)
		if p.optional && f.IsZero() {
			continue
		}
		m = append(m, msgpack.Pair{Key: p.name, Value: outgoing(f.Interface())})
	}
	return m
}

// tagged reports whether a type is a struct with an rpc tag.
func tagged(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if _, ok := t.Field(i).Tag.Lookup("rpc"); ok {
			return true
		}
	}
	return false
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
