package frame

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
)

// nativeKinds are the kinds of Arrow types for algorithms of shared libraries.
var nativeKinds = map[arrow.Type]clique.Kind{
	arrow.INT8: clique.KindOf[int8](), arrow.INT16: clique.KindOf[int16](), arrow.INT32: clique.KindOf[int32](),
	arrow.INT64: clique.KindOf[int64](), arrow.UINT8: clique.KindOf[uint8](), arrow.UINT16: clique.KindOf[uint16](),
	arrow.UINT32: clique.KindOf[uint32](), arrow.UINT64: clique.KindOf[uint64](),
	arrow.FLOAT16: clique.KindOf[clique.F16](),
	arrow.FLOAT32: clique.KindOf[float32](), arrow.FLOAT64: clique.KindOf[float64](),
}

// Native returns the named columns of the batch, or all without names, as arguments of an algorithm of a shared library
// (package clique/native): device pointers, which are borrowed from the batch until release is called. The columns must
// be numbers without nulls.
func (b *DeviceBatch) Native(names ...string) (_ native.Partition, release func(), err error) {
	if len(names) > 0 {
		if b, err = b.Project(names...); err != nil {
			return nil, nil, err
		}
	}
	out := make(native.Partition, 0, len(b.columns))
	release = func() {
		for _, c := range out {
			c.Data.Release()
		}
	}
	for i, c := range b.columns {
		f := b.schema.Field(i)
		kind, ok := nativeKinds[f.Type.ID()]
		var reason string
		switch {
		case !ok:
			reason = fmt.Sprintf("has type %v; algorithms of libraries take numbers", f.Type)
		case c.Validity != nil:
			reason = "may have nulls, which algorithms of libraries do not support"
		case c.Values.Buffer() == nil:
			reason = "is not on a device"
		}
		if reason != "" {
			release()
			return nil, nil, schemaErrorf(-1, "column %q %s", f.Name, reason)
		}
		out = append(out, native.Column{Kind: kind, Data: c.Values.Buffer().Slice(0, b.rows*kind.Size())})
	}
	return out, release, nil
}
