package helpers

import (
	"fmt"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Args sets the struct or map that args points to from the body of a helper's call, without references to it: see
// rpc.Assign.
func Args(m *pyproc.Message, args any) error {
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		return err
	}
	if _, ok := v.(msgpack.Map); !ok {
		return fmt.Errorf("%s: body is not a map", m.Op)
	}
	if err := rpc.Assign(wire.Clone(v), args); err != nil {
		return fmt.Errorf("%s: %w", m.Op, err)
	}
	return nil
}
