// Package bridge has functions of package wire that are for this module and no part of its API. Package wire sets them
// when it is imported; types of its own are any here.
package bridge

var (
	// FromPickle turns what pickle.Decode made into a value of the types of package wire, and reports whether there is
	// one for everything in it. The values borrow from the pickle.
	FromPickle func(v any) (any, bool)
	// DecodePart decodes a value of the body of a *wire.Message, given as msgpack, with the frames that it refers to.
	// opt is a *wire.DecodeOptions. See message.DecodePart.
	DecodePart func(m any, raw []byte, opt any) (any, error)
)
