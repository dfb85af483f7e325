// Package pickle reads Python's pickles into an inert tree and writes pickles that Python
// reads. It never executes one: a pickle is a program, and what it would import and call is
// only noted down.
//
// [Load] reads protocols 0 to 5, with out-of-band buffers, from bytes that may come from
// anyone: [Limits] bound what they cost. [Append] writes Go values and trees, also those
// that were just read, with shared parts and cycles as they were.
package pickle
