// Package wire is the language that Dask's processes speak: messages of frames, the
// msgpack dialect of their bodies, and the families in which values are serialised.
package wire
