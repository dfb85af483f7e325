package lifetrace

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		in   []byte
		want string
	}{
		{nil, ""},
		{encode(t, msgpack.Map{}), ""},
		{encode(t, msgpack.MapOf("timeout", 1.5, Name, trace, "workers", []any{"a"})), trace},
		{encode(t, msgpack.MapOf(Name, 5)), ""},
		{encode(t, msgpack.MapOf(Name, nil)), ""},
		{encode(t, msgpack.MapOf(Name, trace+"-00")), ""},
		{encode(t, msgpack.MapOf(Name, strings.ToUpper(trace))), ""},
		{encode(t, msgpack.MapOf(Name, strings.Repeat("0", 55))), ""},
		{encode(t, []any{1}), ""},
		{encode(t, msgpack.MapOf("a", "b", Name, trace))[:20], ""},
	} {
		if got := Of(c.in); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add(encode(f, msgpack.MapOf("x", []any{1}, Name, trace)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := Of(b); got != "" && !Valid(got) {
			t.Errorf("got %q", got)
		}
	})
}

type observer struct{ Observer }

func TestSet(t *testing.T) {
	if Get() != nil {
		t.Fatal("a process has an observer before Set")
	}
	o := &observer{}
	if before := Set(o); before != nil || Get() != Observer(o) {
		t.Errorf("got %v before and %v after, want nil and the observer", before, Get())
	}
	if before := Set(nil); before != Observer(o) || Get() != nil {
		t.Errorf("got %v before and %v after, want the observer and nil", before, Get())
	}
}
