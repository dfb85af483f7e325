package gotask

import "bytes"

// Possible tells whether a pickled task may name a Go function, from the bytes alone and at
// the price of a search: most tasks of Python graphs do not, and need not be read.
func Possible(data, annotations []byte) bool {
	for _, word := range words {
		if bytes.Contains(data, word) {
			return true
		}
	}
	return bytes.Contains(annotations, annotationKey)
}

// words are those without which no way works: of stubs and encoded calls, of namespaces, and
// the beginning of names.
var words = [][]byte{[]byte(Marker), []byte("SimpleNamespace"), []byte("gotask"), []byte("go_")}

// annotationKey is "go" as msgpack writes it.
var annotationKey = []byte("\xa2go")
