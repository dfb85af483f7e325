package ucx

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A worker's address survives every way in which Go programs hand values on, and the
// copy connects.
func TestAddressForms(t *testing.T) {
	ctx := testContext(t)
	server := newWorker(t, Config{}, WorkerConfig{})
	addr, err := server.Address()
	if err != nil || len(addr) == 0 {
		t.Fatalf("%d bytes, %v", len(addr), err)
	}
	file := filepath.Join(t.TempDir(), "address")
	for i, form := range []struct {
		name string
		copy func() (WorkerAddress, error)
	}{
		{"bytes", func() (WorkerAddress, error) { return WorkerAddress(bytes.Clone(addr)), nil }},
		{"binary", func() (a WorkerAddress, err error) {
			b, err := addr.MarshalBinary()
			return a, errors.Join(err, a.UnmarshalBinary(b))
		}},
		{"text", func() (a WorkerAddress, err error) {
			b, err := addr.MarshalText()
			return a, errors.Join(err, a.UnmarshalText(b))
		}},
		{"string", func() (a WorkerAddress, err error) { return a, a.UnmarshalText([]byte(addr.String())) }},
		{"gob", func() (a WorkerAddress, err error) {
			var b bytes.Buffer
			err = gob.NewEncoder(&b).Encode(addr)
			return a, errors.Join(err, gob.NewDecoder(&b).Decode(&a))
		}},
		{"json", func() (a WorkerAddress, err error) {
			b, err := json.Marshal(map[string]WorkerAddress{"peer": addr})
			var m map[string]WorkerAddress
			err = errors.Join(err, json.Unmarshal(b, &m))
			return m["peer"], err
		}},
		{"file", func() (a WorkerAddress, err error) {
			if err := os.WriteFile(file, []byte(addr.String()), 0o600); err != nil {
				return nil, err
			}
			b, err := os.ReadFile(file)
			return a, errors.Join(err, a.UnmarshalText(b))
		}},
	} {
		a, err := form.copy()
		if err != nil || !bytes.Equal(a, addr) {
			t.Errorf("%s: %d of %d bytes, %v", form.name, len(a), len(addr), err)
			continue
		}
		ep, err := newWorker(t, Config{}, WorkerConfig{}).Connect(a, &EndpointConfig{Name: form.name})
		if err != nil {
			t.Errorf("%s: %v", form.name, err)
			continue
		}
		got := make([]byte, 2)
		if err := both(func() error { return ep.Send(ctx, Bytes([]byte("hi")), uint64(i)) },
			func() error { _, err := server.Recv(ctx, Bytes(got), uint64(i), FullMask); return err }); err != nil ||
			string(got) != "hi" {
			t.Errorf("%s: %q, %v", form.name, got, err)
		}
		if ep.Peer() != form.name || ep.LocalAddr() != nil || ep.RemoteAddr() != nil {
			t.Errorf("%s: peer %q, addresses %v and %v, though no socket was used", form.name, ep.Peer(),
				ep.LocalAddr(), ep.RemoteAddr())
		}
	}
}

// UCX trusts the bytes of an address; what is empty, cut off or damaged never reaches it.
func TestAddressRefused(t *testing.T) {
	w := newWorker(t, Config{}, WorkerConfig{})
	addr, err := w.Address()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []WorkerAddress{nil, {}, make(WorkerAddress, maxWorkerAddress+1)} {
		if ep, err := w.Connect(bad, nil); !errors.Is(err, errInvalidAddr) {
			t.Errorf("%d bytes: %v, %v", len(bad), ep, err)
		}
		if _, err := bad.MarshalText(); !errors.Is(err, errInvalidAddr) {
			t.Errorf("%d bytes as text: %v", len(bad), err)
		}
		if s := bad.String(); s != "invalid worker address" {
			t.Errorf("%d bytes print as %q", len(bad), s)
		}
	}
	good, err := addr.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x20
		var a WorkerAddress
		if err := a.UnmarshalBinary(b); err == nil || a != nil {
			t.Fatalf("byte %d was damaged and nobody noticed", i)
		}
		if err := a.UnmarshalBinary(good[:i]); err == nil {
			t.Fatalf("%d of %d bytes were taken", i, len(good))
		}
	}
	for text, want := range map[string]string{
		"": "ucx1:", "ucx2:AAAA": "ucx1:", "ucx1:": "too short", "ucx1:!": "base64",
		"ucx1:" + strings.Repeat("A", 3*maxWorkerAddress): "too long",
	} {
		var a WorkerAddress
		if err := a.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// A worker that has gone does not answer: the endpoint or its first operation says so.
func TestConnectToClosedWorker(t *testing.T) {
	ctx := testContext(t)
	// tcp, as shared memory of a process that is still there looks alive to UCX.
	cfg := Config{Options: map[string]string{"TLS": "tcp,self", "TCP_MAX_CONN_RETRIES": "1"}}
	c := openContext(t, cfg)
	gone, err := c.NewWorker(WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := gone.Address()
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	ep, err := newWorker(t, cfg, WorkerConfig{}).Connect(addr, nil)
	if err == nil {
		err = ep.SendSync(ctx, Bytes([]byte("anyone?")), 1)
	}
	if err == nil || ctx.Err() != nil {
		t.Errorf("a send to a worker that has gone: %v", err)
	}
}

func FuzzWorkerAddress(f *testing.F) {
	good := WorkerAddress("0123456789")
	b, _ := good.MarshalBinary()
	text, _ := good.MarshalText()
	f.Add(b, string(text))
	f.Add([]byte{}, "ucx1:")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		var x, y WorkerAddress
		if x.UnmarshalBinary(b) == nil {
			if again, err := x.MarshalBinary(); err != nil || !bytes.Equal(again, b) {
				t.Errorf("%x becomes %x, %v", b, again, err)
			}
		}
		if y.UnmarshalText([]byte(text)) == nil {
			var z WorkerAddress
			if err := z.UnmarshalText([]byte(y.String())); err != nil || !bytes.Equal(y, z) {
				t.Errorf("%q becomes %q, %v", text, z, err)
			}
		}
	})
}
