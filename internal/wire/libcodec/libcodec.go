// Package libcodec registers codecs for values of libraries, for package wire: internal/wire/arrowipc does so for
// Arrow.
package libcodec

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"go.millstream.dev/internal/wire/pickle"
)

// Codec encodes and decodes values of a library, in Dask's own family.
type Codec struct {
	// Types are the interface types of its values, for callers that have a type and no value: see Types.
	Types []reflect.Type
	// Classes are the Python classes whose values Decode decodes, at most a few.
	Classes []pickle.Global
	// ClassOf returns the Python class of a value, and false for other values. It is called often.
	ClassOf func(v any) (pickle.Global, bool)
	// Encode returns the frames of a value of the codec. They share no memory with it.
	Encode func(v any) ([][]byte, error)
	// Decode returns the value of a class from untrusted frames, from which it may borrow.
	Decode func(class pickle.Global, frames [][]byte) (any, error)
	// Prepare computes what the library would compute and keep at the first use of a value, so that several goroutines
	// may then use it. It is called before they can; nil if there is nothing to compute.
	Prepare func(v any)
}

// registered is replaced, never modified.
var (
	registered atomic.Pointer[registry]
	lock       sync.Mutex
)

type registry struct {
	codecs []*Codec
	types  []reflect.Type
}

// Register registers a codec for Encode, Decode and Clone of package wire, for the whole process. Call it from an init
// function. Values of a class without a codec are decoded as *wire.Object. The returned function removes the codec, for
// tests.
func Register(c *Codec) (remove func()) {
	change := func(edit func([]*Codec) []*Codec) {
		lock.Lock()
		defer lock.Unlock()
		var next registry
		if old := registered.Load(); old != nil {
			next.codecs = slices.Clone(old.codecs)
		}
		next.codecs = edit(next.codecs)
		for _, c := range next.codecs {
			next.types = append(next.types, c.Types...)
		}
		registered.Store(&next)
	}
	change(func(l []*Codec) []*Codec { return append(l, c) })
	return func() {
		change(func(l []*Codec) []*Codec { return slices.DeleteFunc(l, func(x *Codec) bool { return x == c }) })
	}
}

// Types returns the types of all codecs, in a slice that must not be changed.
func Types() []reflect.Type {
	if r := registered.Load(); r != nil {
		return r.types
	}
	return nil
}

// For returns the codec of a value and its class, nil if it has none.
func For(v any) (*Codec, pickle.Global) {
	if r := registered.Load(); r != nil {
		for _, c := range r.codecs {
			if g, ok := c.ClassOf(v); ok {
				return c, g
			}
		}
	}
	return nil, pickle.Global{}
}

// Has reports whether a value has a codec.
func Has(v any) bool {
	c, _ := For(v)
	return c != nil
}

// Prepare prepares a value for the use by several goroutines, if it has a codec that needs that.
func Prepare(v any) {
	if c, _ := For(v); c != nil && c.Prepare != nil {
		c.Prepare(v)
	}
}

// Of returns the codec of a class, nil if there is none.
func Of(class pickle.Global) *Codec {
	if r := registered.Load(); r != nil {
		for _, c := range r.codecs {
			if slices.Contains(c.Classes, class) {
				return c
			}
		}
	}
	return nil
}

// Clone copies a value through its frames; one that cannot be encoded is returned as it is.
func (c *Codec) Clone(v any, class pickle.Global) any {
	frames, err := c.Encode(v)
	if err != nil {
		return v
	}
	copied, err := c.Decode(class, frames)
	if err != nil {
		return v
	}
	return copied
}
