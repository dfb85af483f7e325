// Package bridge has functions of package wire that are not part of its API. Package wire sets them when it is
// imported; its own types are any here.
package bridge

var (
	// FromPickle converts a result of pickle.Decode to the types of package wire, and reports whether all its values
	// are supported. The result borrows from the pickle.
	FromPickle func(v any) (any, bool)
	// DecodePart decodes a value of the body of a *wire.Message, given as msgpack, with the frames that it refers to.
	// opt is a *wire.DecodeOptions. See message.DecodePart.
	DecodePart func(m any, raw []byte, opt any) (any, error)
)
