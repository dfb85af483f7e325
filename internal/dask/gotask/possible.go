package gotask

import "bytes"

// Possible reports whether a pickled task may name a Go function, by a search of the bytes alone: most tasks of Python
// graphs do not, and need not be decoded.
func Possible(data, annotations []byte) bool {
	for _, word := range words {
		if bytes.Contains(data, word) {
			return true
		}
	}
	return bytes.Contains(annotations, annotationKey)
}

// words are required by all ways: those of stubs and encoded calls, of namespaces, and the prefix of names.
var words = [][]byte{[]byte(Marker), []byte("SimpleNamespace"), []byte("gotask"), []byte("go_")}

// annotationKey is "go" as msgpack.
var annotationKey = []byte("\xa2go")
