package task

import (
	"reflect"
	"strconv"
	"strings"
)

// signature returns parameters and result with everything that determines the encoding of values: processes with equal
// signatures can decode each other's arguments.
func signature(params []reflect.Type, result reflect.Type) string {
	var b strings.Builder
	seen := make(map[reflect.Type]bool)
	b.WriteByte('(')
	for i, t := range params {
		if i > 0 {
			b.WriteString(", ")
		}
		writeType(&b, t, seen)
	}
	b.WriteString(") ")
	writeType(&b, result, seen)
	return b.String()
}

// writeType writes a type, and at the first occurrence of a named type also its definition.
func writeType(b *strings.Builder, t reflect.Type, seen map[reflect.Type]bool) {
	if t == nil {
		b.WriteString("nothing")
		return
	}
	name := typeName(t)
	if name != "" {
		b.WriteString(name)
		if seen[t] || t.PkgPath() == "" || t.Kind() == reflect.Interface || t == bufferType.Elem() {
			return // a buffer is sent as its memory, whatever its fields are
		}
		seen[t] = true
		b.WriteByte('=')
	}
	switch t.Kind() {
	case reflect.Pointer:
		b.WriteByte('*')
		writeType(b, t.Elem(), seen)
	case reflect.Slice:
		b.WriteString("[]")
		writeType(b, t.Elem(), seen)
	case reflect.Array:
		b.WriteString("[" + strconv.Itoa(t.Len()) + "]")
		writeType(b, t.Elem(), seen)
	case reflect.Map:
		b.WriteString("map[")
		writeType(b, t.Key(), seen)
		b.WriteByte(']')
		writeType(b, t.Elem(), seen)
	case reflect.Struct:
		b.WriteString("struct{")
		for i := range t.NumField() {
			f := t.Field(i)
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString(f.Name + " ")
			writeType(b, f.Type, seen)
		}
		b.WriteByte('}')
	default:
		if name == "" {
			b.WriteString(t.String())
		} else {
			b.WriteString(t.Kind().String())
		}
	}
}

// typeName returns the name of a type with the path of its package, "" for unnamed types.
func typeName(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	if p := t.PkgPath(); p != "" {
		return p + "." + t.Name()
	}
	return t.Name()
}
