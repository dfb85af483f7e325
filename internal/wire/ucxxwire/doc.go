// Package ucxxwire encodes and decodes the protocol of UCXX 0.52 (and, where they differ, UCX-Py) above UCX:
// the peer info exchanged when an endpoint is connected, tags derived from user tags, the active-message header, and
// the headers of a multi-buffer message.
//
// All integers are in the sender's native byte order and unaligned, as both
// Python packages write them with memcpy; UCX itself connects only machines of
// one byte order.
//
// Decoders check every bound before they allocate, never trust a length from the peer, and return a [FieldError] with
// the invalid field and format. They do not use UCX.
package ucxxwire
