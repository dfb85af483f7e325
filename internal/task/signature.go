package task

import (
	"reflect"
	"strconv"
	"strings"
)

// signature writes parameters and result with everything that decides how values are
// encoded: two processes with equal signatures read each other's arguments.
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

// writeType writes a type, and a named one with what it is made of where it first stands.
func writeType(b *strings.Builder, t reflect.Type, seen map[reflect.Type]bool) {
	if t == nil {
		b.WriteString("nothing")
		return
	}
	name := typeName(t)
	if name != "" {
		b.WriteString(name)
		if seen[t] || t.PkgPath() == "" || t.Kind() == reflect.Interface || t == bufferType.Elem() {
			return // of a buffer the memory travels, whatever it is made of
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

// typeName is a type's name with its package's path, "" for types without a name.
func typeName(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	if p := t.PkgPath(); p != "" {
		return p + "." + t.Name()
	}
	return t.Name()
}
