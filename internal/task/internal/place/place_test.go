package place

import (
	"strings"
	"testing"
)

var atInit = Caller()

func TestCaller(t *testing.T) {
	got := func() string { return Caller() }()
	if !strings.Contains(got, "place_test.go:") {
		t.Errorf("got %s, want a line of this file", got)
	}
	if !strings.Contains(atInit, "place_test.go:8") {
		t.Errorf("in an initializer: got %s, want line 8 of this file", atInit)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		function             string
		wrapper, initializer bool
	}{
		{"main.main", false, false}, {"main.init", false, true}, {"main.init.0", false, true}, {"main.init.func1",
			false, true},
		{"main.initialize", false, false}, {"example.org/x.init.1", false, true},
		{"go.millstream.dev/client.Func[...]", true, false}, {"go.millstream.dev/client.init", true, true},
		{"go%2emillstream%2edev.Func[...]", true, false}, {"go.millstream.dev.Func", true, false},
		{"go.millstream.dev/internal/task.register", true, false}, {"go.millstream.dev/clients.Func", false, false},
		{"go.millstream.dev/frame/kmeans.init", true, true}, {"go.millstream.dev/examples/x.init", false, true},
		{"example.org/go.millstream.dev/client.Func", false, false}, {"", false, false},
	} {
		if w, i := isWrapper(c.function), isInitializer(c.function); w != c.wrapper || i != c.initializer {
			t.Errorf("%q: got wrapper %v, initializer %v, want %v, %v", c.function, w, i, c.wrapper, c.initializer)
		}
	}
}
