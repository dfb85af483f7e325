// Package wire is the language that Dask's processes speak: messages of frames, the
// msgpack dialect of their bodies, and the families in which values are serialised.
//
// # Messages
//
// A Message is a list of frames. The first, the body, is msgpack: usually a map with "op"
// and arguments, or a list of such maps. Encode makes a message of a Go value and Decode a
// value of a message:
//
//	m, err := wire.Encode(wire.NewDict("op", "put", "data", wire.Serialize{Value: array}), wire.EncodeOptions{})
//	v, err := wire.Decode(m, wire.DecodeOptions{})
//
// What Serialize marks travels in frames of its own and without a copy: bytes, arrays,
// arrays of GPUs and, where package frame is imported, Arrow tables in Dask's own family, all
// else pickled. ToPickle marks what the receiver, even a scheduler, is to unpickle. A scheduler sets
// DecodeOptions.Keep: values that were sent with Serialize stay closed and leave with the same bytes.
//
// The types of values are listed at Dict. What Go has no type for becomes an Object, which
// can be sent on unchanged. Nothing that a peer sends is ever executed.
//
// # Memory
//
// Decoded values borrow from their message: they are valid until it is released, and Clone
// detaches them. An encoded message borrows the memory of the values; nobody changes it
// before it is sent.
//
// # Hostile bytes
//
// Bytes are taken to come from an enemy. Memory is allocated for bytes that are there, not
// for those that are promised; nesting and decompression are bounded, see DecodeOptions.
package wire
