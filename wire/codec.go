package wire

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"go.millstream.dev/internal/wire/pickle"
)

// Codec reads and writes values of a library, in Dask's own family. A package has one for the values of Arrow and
// registers it when it is imported: internal/wire/arrowipc.
type Codec struct {
	// Types are the interface types of its values, for callers that have a type and no value: see CodecTypes.
	Types []reflect.Type
	// Classes are the Python classes whose values Decode reads, at most a few.
	Classes []pickle.Global
	// ClassOf returns the class that a value has in Python, and false for values of others. It is called often.
	ClassOf func(v any) (pickle.Global, bool)
	// Encode returns the frames of a value of the codec. They share no memory with it.
	Encode func(v any) ([]Frame, error)
	// Decode returns the value of a class from frames, which it may borrow. They may come from anyone.
	Decode func(class pickle.Global, frames []Frame) (any, error)
}

// codecs are replaced, never changed.
var (
	codecs     atomic.Pointer[[]Codec]
	codecTypes atomic.Pointer[[]reflect.Type]
	codecsLock sync.Mutex
)

// RegisterCodec makes a codec known to Encode, Decode and Clone, for the whole process. Call it from an init function.
// Messages with values of a class that no codec reads have them as *Object.
func RegisterCodec(c Codec) {
	codecsLock.Lock()
	defer codecsLock.Unlock()
	var list []Codec
	if old := codecs.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = append(list, c)
	codecs.Store(&list)
	types := append(slices.Clone(CodecTypes()), c.Types...)
	codecTypes.Store(&types)
}

// CodecTypes returns the types of all codecs, in a slice that must not be changed.
func CodecTypes() []reflect.Type {
	if list := codecTypes.Load(); list != nil {
		return *list
	}
	return nil
}

// codecFor returns the codec of a value and its class, nil if it has none.
func codecFor(v any) (*Codec, pickle.Global) {
	if list := codecs.Load(); list != nil {
		for i := range *list {
			if g, ok := (*list)[i].ClassOf(v); ok {
				return &(*list)[i], g
			}
		}
	}
	return nil, pickle.Global{}
}

// hasCodec reports whether a value is one of a codec.
func hasCodec(v any) bool {
	c, _ := codecFor(v)
	return c != nil
}

// codecOf returns the codec that reads a class, nil if there is none.
func codecOf(class pickle.Global) *Codec {
	if list := codecs.Load(); list != nil {
		for i := range *list {
			if slices.Contains((*list)[i].Classes, class) {
				return &(*list)[i]
			}
		}
	}
	return nil
}

func (c *Codec) encode(v any, class pickle.Global) (Dict, []Frame, error) {
	frames, err := c.Encode(v)
	if err != nil {
		return nil, nil, err
	}
	return daskHeader(class, nil), frames, nil
}

// clone copies a value by way of frames of its own; one that cannot be encoded is returned as it is.
func (c *Codec) clone(v any, class pickle.Global) any {
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
