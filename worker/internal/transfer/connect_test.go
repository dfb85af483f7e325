package transfer

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/task"
)

// Data goes over the data connection where both have one. If that fails it goes over the control connection.
func TestDataConnection(t *testing.T) {
	lanes := Config{Listen: "tcp://:0", Dial: comm.DialConfig{Timeout: time.Second}}
	a, b := start(t, lanes), start(t, lanes)
	if a.Address() == "" || a.Address() == a.address {
		t.Fatalf("the data connection of %s is %q", a.address, a.Address())
	}
	k := a.put("n", 5)
	served := func() (data bool) {
		before := len(a.Records())
		got := live(t, b.get(t, a.address, k))
		if fmt.Sprint(got["n"]) != "5" {
			t.Fatalf("got %v", got)
		}
		waitFor(t, func() bool { return len(a.Records()) == before+1 })
		address, _ := b.lanes.Find(t.Context(), a.address)
		return address == a.Address()
	}
	if !served() {
		t.Error("the data connection was not used")
	}
	a.StopServing()
	if served() {
		t.Error("a data connection that failed is used again at once")
	}
	b.Forget(a.address)
}

// Where one side has none, data goes over the control connection.
func TestNoDataConnection(t *testing.T) {
	a, b := start(t, Config{Listen: "tcp://:0"}), start(t, Config{})
	if b.Address() != "" {
		t.Fatalf("b has the data connection %s", b.Address())
	}
	if got := live(t, b.get(t, a.address, a.put("n", 5))); fmt.Sprint(got["n"]) != "5" {
		t.Errorf("got %v", got)
	}
	if got := live(t, a.get(t, b.address, b.put("m", 6))); fmt.Sprint(got["m"]) != "6" {
		t.Errorf("got %v", got)
	}
}

// A data connection that cannot be served is none: the worker starts nevertheless.
func TestListenFails(t *testing.T) {
	n := start(t, Config{Listen: "nonsense://127.0.0.1:0"})
	if n.Address() != "" || n.lanes != nil {
		t.Errorf("there is a data connection at %q", n.Address())
	}
	n.get(t, n.address, task.NewKey("n"))
}

func TestListenAddress(t *testing.T) {
	for _, c := range []struct {
		listen, control string
		trusted         bool
		want            string
	}{
		{"ucxx://:0", "tls://192.0.2.1:9", false, "ucxx://127.0.0.1:0"},
		{"ucxx://:0", "tls://192.0.2.1:9", true, "ucxx://192.0.2.1:0"},
		{"ucxx://192.0.2.7:5", "tls://192.0.2.1:9", false, "ucxx://192.0.2.7:5"},
		{"ucxx://:7", "inproc://a", true, "ucxx://:7"},
	} {
		m := &Manager{cfg: Config{Listen: c.listen, Trusted: c.trusted}, address: c.control}
		if got := m.listenAddress(); got != c.want {
			t.Errorf("%s of a worker at %s, trusted %v: got %s, want %s", c.listen, c.control, c.trusted, got, c.want)
		}
	}
}

// Encrypted workers open nothing to the network that is not encrypted, unless they are told to.
func TestExposes(t *testing.T) {
	for _, c := range []struct {
		control string
		require bool
		trusted bool
		address string
		want    bool
	}{
		{"tls://192.0.2.1:9", false, false, "ucxx://192.0.2.1:5", true},
		{"tls://192.0.2.1:9", false, false, "ucxx://127.0.0.1:5", false},
		{"tls://192.0.2.1:9", false, true, "ucxx://192.0.2.1:5", false},
		{"tcp://192.0.2.1:9", false, false, "ucxx://192.0.2.1:5", false},
		{"tcp://192.0.2.1:9", true, false, "ucxx://192.0.2.1:5", true},
	} {
		m := &Manager{address: c.control, cfg: Config{Trusted: c.trusted,
			Accept: comm.ListenConfig{RequireEncryption: c.require}}}
		if got := m.exposes(c.address); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// The address of a data connection that would be open to the network is not listened on.
func TestListenExposed(t *testing.T) {
	n := start(t, Config{Listen: "tcp://0.0.0.0:0", Accept: comm.ListenConfig{RequireEncryption: true}})
	if n.Address() != "" {
		t.Errorf("it listens at %s", n.Address())
	}
}
