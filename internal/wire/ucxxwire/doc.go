// Package ucxxwire encodes and decodes the bytes that Python's UCXX 0.52 (and,
// where they differ, UCX-Py) puts on the wire above UCX: the peer info exchanged
// when an endpoint is made, tags derived from user tags, the active-message
// header, and the headers of a multi-buffer message.
//
// All integers are in the sender's native byte order and unaligned, as both
// Python packages write them with memcpy; UCX itself connects only machines of
// one byte order.
//
// Decoders check every bound before they allocate, never trust a length that the
// peer promises, and say in a [FieldError] which field of which format is wrong.
// They are pure: nothing here touches UCX.
package ucxxwire
