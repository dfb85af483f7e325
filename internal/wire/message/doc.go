// Package message has the messages of Dask's streams between schedulers, workers and clients as Go structs, one for
// each op, and iterates over the bodies that contain them.
//
// A struct whose comment has a line "message:op NAME" is a message; its fields have the tag
//
//	msg:"NAME[,OPTION…]"
//
// with the name on the wire. They are written in the order of the struct. Where an op has another form for one
// receiver, the line is "message:op NAME to RECEIVER". A struct with a line "message:part" is a map without an op,
// which messages have as a field or in a list. Options:
//
//	required   it may not be nil; a key, text or list of keys may not be missing or empty
//	omitempty  the zero value is not written
//	nil        "" and an empty key are written as nil
//	lenient    a text that is for people: what is no text is read as ""; what is no list of texts as none
//	none=N     N stands for a number that is nil or missing
//	min=N      the least number
//
// Nil is read as the zero value, or as that of none, unless the field is required; unknown fields are skipped.
// internal/tools/messages generates two methods for each message: Read reads the current message of an Ops, Append
// writes one into a Buffer. Neither allocates, except for keys that are not in canonical form, for slices that grow,
// and for errors. Keys, texts and bytes that are read borrow from the message's body; lists reuse the memory of those
// read into the same struct before.
package message

//go:generate go run ../../tools/messages -dir .
