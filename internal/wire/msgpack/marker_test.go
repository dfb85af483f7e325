package msgpack

import "testing"

func TestMarker(t *testing.T) {
	for _, name := range []string{Serialized, Pickled} {
		r := NewReader(AppendInt(AppendMarker(nil, name), 7))
		if got, frame, err := r.ReadMarker(); got != name || frame != 7 || err != nil || r.End() != nil {
			t.Errorf("%s: got %q, %d, %v", name, got, frame, err)
		}
	}
	for _, v := range []any{nil, 5, "x", Map{}, MapOf("a", 1), MapOf(Serialized, "x"), MapOf(Pickled, 1, "b", 2),
		MapOf(5, 6), []any{Serialized, 1}} {
		b, err := Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(b)
		if got, _, err := r.ReadMarker(); got != "" || err != nil {
			t.Errorf("%v: got %q, %v, want no marker", v, got, err)
		}
	}
	r := NewReader(AppendMarker(nil, Serialized)[:5])
	if got, _, err := r.ReadMarker(); got != "" || err == nil {
		t.Errorf("cut off: got %q, %v, want an error", got, err)
	}
}
