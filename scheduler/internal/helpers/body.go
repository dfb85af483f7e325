package helpers

import (
	"fmt"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Body is the body of a helper's call. It is the caller's own.
func Body(m *pyproc.Message) (msgpack.Map, error) {
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		return nil, err
	}
	args, ok := wire.Clone(v).(msgpack.Map)
	if !ok {
		return nil, fmt.Errorf("%s: its body is no map", m.Op)
	}
	return args, nil
}
