package transfer

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/task"
)

// Data is moved over the data connection where both sides have one. If that fails the control connection is used.
func TestDataConnection(t *testing.T) {
	cfg := Config{Listen: "tcp://:0", Dial: comm.DialConfig{Timeout: time.Second}}
	a, b := start(t, cfg), start(t, cfg)
	if a.Address() == "" || a.Address() == a.address {
		t.Fatalf("data connection of %s: got %q", a.address, a.Address())
	}
	k := a.put("n", 5)
	served := func() (data bool) {
		before := len(a.Records())
		got := live(t, b.get(t, a.address, k))
		if fmt.Sprint(got["n"]) != "5" {
			t.Fatalf("got %v", got)
		}
		waitFor(t, func() bool { return len(a.Records()) == before+1 })
		address, _ := b.dataPeers.Find(t.Context(), a.address)
		return address == a.Address()
	}
	if !served() {
		t.Error("data connection not used")
	}
	a.StopServing()
	if served() {
		t.Error("failed data connection was used again at once")
	}
	b.Forget(a.address)
}

// If one side has no data connection, the control connection is used.
func TestNoDataConnection(t *testing.T) {
	a, b := start(t, Config{Listen: "tcp://:0"}), start(t, Config{})
	if b.Address() != "" {
		t.Fatalf("data connection of b: got %s, want none", b.Address())
	}
	if got := live(t, b.get(t, a.address, a.put("n", 5))); fmt.Sprint(got["n"]) != "5" {
		t.Errorf("got %v", got)
	}
	if got := live(t, a.get(t, b.address, b.put("m", 6))); fmt.Sprint(got["m"]) != "6" {
		t.Errorf("got %v", got)
	}
}

// A worker starts without a data connection that cannot be opened.
func TestListenFails(t *testing.T) {
	n := start(t, Config{Listen: "nonsense://127.0.0.1:0"})
	if n.Address() != "" || n.dataPeers != nil {
		t.Errorf("got a data connection at %q, want none", n.Address())
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

// Encrypted workers open no unencrypted port to the network, unless they trust it.
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

// A worker does not listen on an address for data that would be open to the network.
func TestListenExposed(t *testing.T) {
	n := start(t, Config{Listen: "tcp://0.0.0.0:0", Accept: comm.ListenConfig{RequireEncryption: true}})
	if n.Address() != "" {
		t.Errorf("got a listener at %s, want none", n.Address())
	}
}
