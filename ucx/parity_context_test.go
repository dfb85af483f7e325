package ucx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/mem"
)

func openContext(t testing.TB, cfg Config) *Context {
	t.Helper()
	c, err := NewContext(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func optionOf(c *Context, name string) (string, bool) {
	v, ok := c.Info().Options[name]
	return v, ok
}

func TestContextDefaults(t *testing.T) {
	c := openContext(t, Config{})
	if c.cfg.Features != AllFeatures || c.cfg.Name != "millstream" {
		t.Errorf("features %v, name %q", c.cfg.Features, c.cfg.Name)
	}
	if n := len(c.Info().Options); n < 20 {
		t.Errorf("got %d effective options, want all of UCX's", n)
	}
	if tls, ok := optionOf(c, "UCX_TLS"); !ok || tls != "all" {
		t.Errorf("UCX_TLS=%q, %v without anything set", tls, ok)
	}
	for _, want := range []string{"self/", "tcp/"} {
		if !slices.ContainsFunc(c.Info().Transports, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("transports %v lack %s", c.Info().Transports, want)
		}
	}
}

func TestContextCustomFeatures(t *testing.T) {
	c := openContext(t, Config{Features: Tag | Stream})
	if c.cfg.Features != Tag|Stream {
		t.Errorf("features %v", c.cfg.Features)
	}
	for f, want := range map[Features]string{
		Tag: "Tag", RMA | Wakeup: "RMA|Wakeup", 0: "0x0", 1 << 40: "0x10000000000",
		Stream | 1<<40: "Stream|0x10000000000",
		AllFeatures:    "Tag|RMA|Atomic32|Atomic64|Wakeup|Stream|ActiveMessages",
	} {
		if f.String() != want {
			t.Errorf("Features(%#x) is %q, want %q", uint64(f), f, want)
		}
	}
}

// Without the feature release builds of UCX lose the message and report success.
func TestFeatureMismatch(t *testing.T) {
	ctx := testContext(t)
	one := make([]byte, 1)
	for _, c := range []struct {
		op   string
		need Features
		run  func(ep *Endpoint) error
	}{
		{"Send", Tag, func(ep *Endpoint) error { return ep.Send(ctx, Bytes(one), 1) }},
		{"StartSend", Tag, func(ep *Endpoint) error { return ep.StartSend(Bytes(one), 1).Wait(ctx) }},
		{"SendSync", Tag, func(ep *Endpoint) error { return ep.SendSync(ctx, Bytes(one), 1) }},
		{"Recv", Tag, func(ep *Endpoint) error { _, err := ep.Recv(ctx, Bytes(one), 1, FullMask); return err }},
		{"Worker.StartRecv", Tag, func(ep *Endpoint) error {
			return ep.Worker().StartRecv(Bytes(one), 1,
				FullMask).Wait(ctx)
		}},
		{"RecvAlloc", Tag, func(ep *Endpoint) error {
			_, _, err := ep.Worker().RecvAlloc(ctx, 1, FullMask,
				1)
			return err
		}},
		{"Probe", Tag, func(ep *Endpoint) error { _, _, err := ep.Worker().Probe(1, FullMask); return err }},
		{"ProbeRemove", Tag, func(ep *Endpoint) error { _, err := ep.Worker().ProbeRemove(1, FullMask); return err }},
		{"SendStream", Stream, func(ep *Endpoint) error { return ep.SendStream(ctx, Bytes(one)) }},
		{"RecvStream", Stream, func(ep *Endpoint) error { _, err := ep.RecvStream(ctx, Bytes(one), true); return err }},
		{"SendAM", ActiveMessages, func(ep *Endpoint) error { return ep.SendAM(ctx, 1, nil, AMOptions{}, Bytes(one)) }},
		{"StartSendAM", ActiveMessages, func(ep *Endpoint) error {
			return ep.StartSendAM(1, nil,
				AMOptions{}).Wait(ctx)
		}},
		{"OpenAM", ActiveMessages, func(ep *Endpoint) error { return ep.Worker().OpenAM(1) }},
		{"RecvAM", ActiveMessages, func(ep *Endpoint) error { _, err := ep.Worker().RecvAM(ctx, 1); return err }},
	} {
		t.Run(c.op, func(t *testing.T) {
			w := newWorker(t, Config{Features: (Tag | Stream | ActiveMessages | Wakeup) &^ c.need}, WorkerConfig{})
			addr, err := w.Address()
			if err != nil {
				t.Fatal(err)
			}
			ep, err := w.Connect(addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = c.run(ep)
			var oe *OpError
			if !errors.Is(err, errUnsupported) || !errors.As(err, &oe) ||
				!strings.Contains(err.Error(), fmt.Sprintf("feature %v; add it to Config.Features", c.need)) {
				t.Errorf("without %v: %v", c.need, err)
			}
		})
	}
}

// A process can drop UCX and begin anew, also with other settings; a context that is
// still in use says by whom instead of pulling the ground away.
func TestReset(t *testing.T) {
	for _, tls := range []string{"tcp,self", "all", "tcp,self"} {
		c, err := NewContext(Config{Options: map[string]string{"TLS": tls}})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := optionOf(c, "UCX_TLS"); got != tls {
			t.Errorf("UCX_TLS=%q, want %q", got, tls)
		}
		var ws []*Worker
		for range 2 {
			w, err := c.NewWorker(WorkerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			ws = append(ws, w)
		}
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "2 workers are still open") {
			t.Errorf("close with two workers: %v", err)
		}
		for _, w := range ws {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if err := w.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A transport list without CUDA means no device memory, whatever the library can do.
func TestConfigWithoutCUDA(t *testing.T) {
	c := openContext(t, Config{Options: map[string]string{"TLS": "tcp,self"}})
	if c.supports(mem.Device) || c.supports(mem.Managed) {
		t.Error("device memory is said to work with TLS=tcp,self")
	}
	if !c.supports(mem.Host) || !c.supports(mem.Pinned) {
		t.Error("host memory is said not to work")
	}
}

// The environment is a way to set options, and a TLS list that names nothing usable is
// an error that says where it came from.
func TestConfigFromEnvironment(t *testing.T) {
	t.Setenv("UCX_TLS", "tcp,self")
	c := openContext(t, Config{})
	if tls, _ := optionOf(c, "UCX_TLS"); tls != "tcp,self" {
		t.Errorf("UCX_TLS=%q", tls)
	}
	t.Setenv("UCX_TLS", "no_such_transport")
	c2, err := NewContext(Config{})
	if err == nil {
		c2.Close()
		t.Fatal("a context without any transport was made")
	}
	if !strings.Contains(err.Error(), `UCX_TLS="no_such_transport"`) {
		t.Errorf("the error does not name the variable: %v", err)
	}
}
