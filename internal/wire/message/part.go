package message

import (
	"go.millstream.dev/internal/wire/bridge"
	"go.millstream.dev/wire"
)

// DecodePart decodes a value of the body of m, given as msgpack, with the frames that it refers to.
func DecodePart(m *wire.Message, raw []byte, opt wire.DecodeOptions) (any, error) {
	return bridge.DecodePart(m, raw, &opt)
}
