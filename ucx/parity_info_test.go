package ucx

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestWorkerInfo(t *testing.T) {
	w := newWorker(t, Config{Options: map[string]string{"TLS": "tcp,self"}}, WorkerConfig{Name: "informer"})
	info, err := w.Info()
	if err != nil || !strings.Contains(info.Text, "UCP worker") || info.Progress != Adaptive {
		t.Errorf("got %+v, %v; want UCX's text and progress %v", info, err, Adaptive)
	}
	if w.Context() == nil || info.MaxHeader < 128 || info.MaxHeader > 1<<20 {
		t.Errorf("context %v, longest header %d", w.Context(), info.MaxHeader)
	}
}

func TestEndpointInfo(t *testing.T) {
	ctx := testContext(t)
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			a, b := transportPair(t, transport, WorkerConfig{})
			if err := both(func() error { return a.Send(ctx, Bytes([]byte("hello")), 1) },
				func() error { _, err := b.Recv(ctx, Bytes(make([]byte, 5)), 1, FullMask); return err }); err != nil {
				t.Fatal(err)
			}
			info, err := a.Info()
			if err != nil || !strings.Contains(info, "UCP endpoint") {
				t.Errorf("info %q, %v", info, err)
			}
			transports, err := a.Transports()
			if err != nil || len(transports) == 0 {
				t.Fatalf("transports %v, %v", transports, err)
			}
			for _, l := range transports {
				if !strings.Contains(transportOptions[transport], l.Name) || l.Device == "" ||
					l.String() != l.Name+"/"+l.Device {
					t.Errorf("transport %v of an endpoint with TLS=%s", l, transportOptions[transport])
				}
				if !strings.Contains(info, l.Name) {
					t.Errorf("transport %v is not in UCX's own description:\n%s", l, info)
				}
			}
			if a.Worker() == b.Worker() || a.Peer() == "" || !strings.Contains(a.String(), a.Peer()) {
				t.Errorf("%v: worker %p, peer %q", a, a.Worker(), a.Peer())
			}
			if a.RemoteAddr() == nil || a.RemoteAddr().String() != b.LocalAddr().String() {
				t.Errorf("a's peer is %v, b is %v", a.RemoteAddr(), b.LocalAddr())
			}
		})
	}
}

func TestInfoAfterClose(t *testing.T) {
	a, _ := pair(t, Config{}, WorkerConfig{})
	w := a.Worker()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	_, err1 := a.Info()
	_, err2 := a.Transports()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err3 := w.Info()
	_, err4 := w.Address()
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// UCX's estimate grows with the length and is of a human size.
func TestEstimateTime(t *testing.T) {
	a, _ := transportPair(t, "tcp", WorkerConfig{})
	small, err := a.EstimateTime(8)
	if err != nil {
		t.Fatal(err)
	}
	large, err := a.EstimateTime(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if small <= 0 || small > time.Second || large <= small || large > time.Hour {
		t.Errorf("8 bytes take %v, 64 MiB %v", small, large)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.EstimateTime(8); !errors.Is(err, net.ErrClosed) {
		t.Errorf("estimate of a closed endpoint: %v", err)
	}
}

// A request under way can be asked what it does; a finished one has nothing to say.
func TestRequestDebug(t *testing.T) {
	ctx := testContext(t)
	a, b := transportPair(t, "tcp", WorkerConfig{})
	src, dst := make([]byte, 1<<20), make([]byte, 1<<20)
	s := a.StartSend(Bytes(src), 1) // rendezvous: under way until it is received
	if text := s.Debug(); !strings.Contains(text, "tag") || !strings.Contains(text, "1048576") {
		t.Errorf("UCX says %q of a tag send of 1 MiB under way", text)
	}
	r := b.StartRecv(Bytes(dst), 1, FullMask)
	if err := errors.Join(s.Wait(ctx), r.Wait(ctx)); err != nil {
		t.Fatal(err)
	}
	if text := s.Debug(); text != "" {
		t.Errorf("a finished request says %q", text)
	}
	if text := a.StartSend(Buffer(nil), 1).Debug(); text != "" {
		t.Errorf("a refused request says %q", text)
	}
}

// The mode that is asked for is in force, and the worker works in it.
func TestWorkerModes(t *testing.T) {
	ctx := testContext(t)
	for _, c := range []struct {
		cfg      WorkerConfig
		progress ProgressMode
		threads  threadMode
	}{
		{WorkerConfig{}, Adaptive, threadSerialized},
		{WorkerConfig{Progress: Polling}, Polling, threadSerialized},
		{WorkerConfig{Progress: Thread}, Thread, threadSerialized},
		{WorkerConfig{threads: threadSingle}, Thread, threadSingle},
		{WorkerConfig{threads: threadMulti}, Adaptive, threadMulti},
	} {
		w := newWorker(t, Config{}, c.cfg)
		if info, err := w.Info(); err != nil || info.Progress != c.progress {
			t.Errorf("%+v: got progress %v, %v, want %v", c.cfg, info.Progress, err, c.progress)
		}
		// A library may grant less than was asked for, never without saying so.
		if w.mode != c.threads && c.threads != threadMulti {
			t.Errorf("%+v: thread mode %v, want %v", c.cfg, w.mode, c.threads)
		}
		addr, err := w.Address()
		if err != nil {
			t.Fatal(err)
		}
		ep, err := w.Connect(addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2)
		if err := both(func() error { return ep.Send(ctx, Bytes([]byte("ok")), 1) },
			func() error { _, err := w.Recv(ctx, Bytes(got), 1, FullMask); return err }); err != nil ||
			string(got) != "ok" {
			t.Errorf("%+v: %q, %v", c.cfg, got, err)
		}
	}
	for m, want := range map[ProgressMode]string{Adaptive: "adaptive", Polling: "spin", Thread: "thread",
		9: "ProgressMode(9)"} {
		if m.String() != want {
			t.Errorf("%d is %q, want %q", int(m), m, want)
		}
	}
}

func TestLibraryDescribed(t *testing.T) {
	if err := Available(); err != nil {
		t.Fatal(err)
	}
	lib, err := Library()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lib.Path); err != nil {
		t.Errorf("the library's path: %v", err)
	}
	if !strings.HasPrefix(lib.Version, "1.") || lib.Major != 1 || lib.Minor < 13 {
		t.Errorf("%+v", lib)
	}
	if !lib.AtLeast(1, 13) || lib.AtLeast(lib.Major, lib.Minor+1) || lib.AtLeast(2, 0) || !lib.AtLeast(0, 99) {
		t.Errorf("AtLeast of %s", lib.Version)
	}
	if again, err := Library(); err != nil || again != lib {
		t.Errorf("a second look gives %+v, %v", again, err)
	}
	// One process has one libucp: asking for another is an error that names both.
	_, err = NewContext(Config{Library: "/nonexistent/libucp.so.0"})
	if err == nil || !strings.Contains(err.Error(), lib.Path) || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("another library: %v", err)
	}
}
