package task

import (
	"strings"
	"testing"

	"go.millstream.dev/wire"
)

// encodedOf returns the frames of a value.
func encodedOf(t testing.TB, v any) *wire.Serialized {
	t.Helper()
	s, err := EncodeValue(v)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	return s
}

// wants reports an error that is missing or lacks a text; "" expects no error.
func wants(t testing.TB, what string, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want %q", what, err, text)
	}
}
