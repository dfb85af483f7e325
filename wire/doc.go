// Package wire implements the protocol of Dask's processes: messages of frames, the msgpack dialect of their bodies,
// and the families in which values are serialized.
//
// # Messages
//
// A Message is a list of frames. The first, the body, is msgpack: usually a map with "op" and arguments, or a list of
// such maps. Encode returns the message of a Go value and Decode the value of a message:
//
//	m, err := wire.Encode(wire.NewDict("op", "put", "data", wire.Serialize{Value: array}), wire.EncodeOptions{})
//	v, err := wire.Decode(m, wire.DecodeOptions{})
//
// Values marked with Serialize are sent in separate frames and without a copy: bytes, arrays, arrays of GPUs and, if
// package frame is imported, Arrow tables in Dask's own family, all others pickled. ToPickle marks values that the
// receiver, even a scheduler, is to unpickle. A scheduler sets DecodeOptions.Keep: values that were sent with Serialize
// stay encoded and are sent on with the same bytes.
//
// The types of values are listed at Dict. Values without a Go type become an Object, which can be sent on unchanged.
// Nothing that a peer sends is ever executed.
//
// # Memory
//
// Decoded values borrow from their message: they are valid until it is released; Clone detaches them. An encoded
// message borrows the memory of the values, which must not change before it is sent.
//
// # Untrusted input
//
// All input is considered hostile. Memory is allocated for bytes that have arrived, not for those announced; nesting
// and decompression are bounded, see DecodeOptions.
package wire
