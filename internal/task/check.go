package task

import (
	"fmt"
	"reflect"
	"strings"
)

// arrowFix is the remedy for an Arrow interface without a codec.
const arrowFix = `use arrow.RecordBatch or arrow.Table, and import _ "go.millstream.dev/frame", which has their codec`

// checkTypes returns an error for the first type in the signature of a function whose values cannot be sent to another
// process. Errors that depend on the value, such as a struct with unexported fields, are reported by Submit: such a
// value can still be passed to a function in the same process as the result of another task.
func checkTypes(f *Func) error {
	params := f.params
	if f.method != nil {
		params = params[1:] // the state of an actor is not sent
	}
	for i, t := range params {
		if err := checkType(t, true, make(map[reflect.Type]bool)); err != nil {
			return fmt.Errorf("parameter %d (%v)%w", i+1, t, err)
		}
	}
	if f.result == nil {
		return nil
	}
	// A struct may be the state of an actor, which never leaves its process.
	if err := checkType(f.result, false, make(map[reflect.Type]bool)); err != nil {
		return fmt.Errorf("result (%v)%w", f.result, err)
	}
	return nil
}

// typeError is returned for a type that cannot be encoded, with its path.
type typeError struct {
	path string
	typ  reflect.Type
	fix  string
}

func (e *typeError) Error() string {
	at := ""
	if e.path != "" {
		at = fmt.Sprintf(" has %v at %s, which", e.typ, e.path)
	}
	return at + " cannot be sent to another process: " + e.fix
}

func checkType(t reflect.Type, structs bool, seen map[reflect.Type]bool) error {
	pt := reflect.PointerTo(t)
	switch {
	case seen[t], pt.Implements(refType), isWire(t), t == bufferType, t == deviceArrayType:
		return nil
	case t.Kind() != reflect.Pointer && pt.Implements(marshalerType) && pt.Implements(unmarshalerType):
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan:
		return &typeError{typ: t, fix: "return a slice, or use client.NewQueue for values between tasks"}
	case reflect.Func:
		return &typeError{typ: t, fix: "register the function and pass its name or its arguments"}
	case reflect.UnsafePointer:
		return &typeError{typ: t, fix: "addresses are not valid there; pass the bytes"}
	case reflect.Interface:
		if strings.HasPrefix(t.PkgPath(), "github.com/apache/arrow-go/") && !hasCodec(t) {
			return &typeError{typ: t, fix: arrowFix}
		}
		if t.NumMethod() > 0 && !hasCodec(t) {
			return &typeError{typ: t, fix: "use a concrete type, or any with types that task.RegisterType registers"}
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		at := "[]"
		if t.Kind() == reflect.Pointer {
			at = ""
		}
		return checkWithin(at, t.Elem(), structs, seen)
	case reflect.Map:
		if err := checkWithin("[key]", t.Key(), structs, seen); err != nil {
			return err
		}
		return checkWithin("[]", t.Elem(), structs, seen)
	case reflect.Struct:
		fields, err := fieldsOf(t)
		if err != nil || !structs {
			return nil
		}
		for _, f := range fields {
			if err := checkWithin("."+f.name, f.plan.typ, structs, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWithin checks a part of a type and adds the name of the part to the path of an error.
func checkWithin(at string, t reflect.Type, structs bool, seen map[reflect.Type]bool) error {
	err := checkType(t, structs, seen)
	if e, ok := err.(*typeError); ok {
		e.path = at + e.path
	}
	return err
}
