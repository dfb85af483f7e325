package ucx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/mem"
)

func TestUCXXActiveMessages(t *testing.T) {
	for _, set := range streamSettings {
		t.Run(set.name, func(t *testing.T) {
			ctx := testContext(t)
			c, s := ucxxPair(t, set.cfg, WorkerConfig{})
			for dir, ends := range map[string][2]*UCXXEndpoint{"to server": {c, s}, "to client": {s, c}} {
				from, to := ends[0], ends[1]
				for _, n := range []int{0, 1, 1024, 8192, 100_000, 4 << 20} {
					want := testBytes(3, n)
					sent := make(chan error, 1)
					go func() { sent <- from.SendAM(ctx, Bytes(want), UCXXOptions{User: []byte("user")}) }()
					m, err := to.RecvAM(ctx)
					if err != nil {
						t.Fatalf("%s, %d bytes: %v", dir, n, err)
					}
					if m.Len != n || m.Kind != mem.Host || string(m.User) != "user" || m.From != to.Endpoint() {
						t.Errorf("%s, %d bytes: %+v", dir, n, m)
					}
					b, err := m.Buffer(ctx, Allocators{})
					if err != nil || !bytes.Equal(b.Bytes(), want) {
						t.Fatalf("%s, %d bytes: %v", dir, n, err)
					}
					if err := <-sent; err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// The option of a sender reaches the receiver: without an allocator for device memory it decides between host memory
// and an error.
func TestUCXXMustMatchMemory(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	device, err := FromArrayInterface(ArrayInterface{Shape: []int64{4}, TypeStr: "|u1", Ptr: 1 << 20, Version: 3}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []View{Bytes([]byte("data")), device} {
		for _, must := range []bool{false, true} {
			// The header is that of the view, the data is in host memory.
			h, err := c.amHeader(v, UCXXOptions{MustMatchMemory: must})
			if err != nil {
				t.Fatal(err)
			}
			data := []View{Bytes([]byte("data"))}
			if err := c.Endpoint().sendAM(ctx, ucxxwire.AMID, h, AMOptions{Reply: true}, data); err != nil {
				t.Fatal(err)
			}
			m, err := s.RecvAM(ctx)
			if err != nil {
				t.Fatal(err)
			}
			b, err := m.Buffer(ctx, Allocators{})
			if refuse := must && v.onDevice(); refuse {
				if !errors.Is(err, errUnsupported) {
					t.Errorf("%v memory, must match: got %v, want %v", v.Kind(), err, errUnsupported)
				}
				continue
			}
			if err != nil || string(b.Bytes()) != "data" {
				t.Errorf("%v memory, must match %v: got %v, want the data", v.Kind(), must, err)
			}
		}
	}
}

// Messages are kept for each sender, in order.
func TestUCXXQueuesPerSender(t *testing.T) {
	ctx := testContext(t)
	ws := newWorker(t, Config{}, WorkerConfig{})
	l, err := ws.ListenUCXX(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	wc := newWorker(t, Config{}, WorkerConfig{})
	var clients, servers [2]*UCXXEndpoint
	for i := range clients {
		if clients[i], err = wc.DialUCXX(ctx, l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if servers[i], err = l.Accept(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if err := clients[i%2].SendAM(ctx, Bytes([]byte{byte(i)}), UCXXOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []int{1, 0} {
		for !servers[k].ProbeAM() {
			if ctx.Err() != nil {
				t.Fatal("got no message by ProbeAM, want one")
			}
		}
		for i := k; i < 20; i += 2 {
			m, err := servers[k].RecvAM(ctx)
			if err != nil {
				t.Fatal(err)
			}
			b, err := m.Bytes(ctx, 1)
			if err != nil || b[0] != byte(i) {
				t.Fatalf("sender %d: message %v instead of %d, %v", k, b, i, err)
			}
		}
		if servers[k].ProbeAM() {
			t.Error("more messages than were sent")
		}
	}
}

func TestUCXXCallbacks(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	ws := s.Endpoint().Worker()
	type got struct {
		id   uint64
		data []byte
		user string
	}
	arrived := make(chan got, 10)
	handlers, cancel := context.WithCancel(ctx)
	defer cancel()
	callbacks := []UCXXCallback{{"app", 1}, {"app", 2}, {strings.Repeat("o", 63), math.MaxUint64}}
	for _, callback := range callbacks {
		id := callback.ID
		err := ws.HandleUCXX(handlers, callback, func(ctx context.Context, m *UCXXMessage) {
			b, err := m.Bytes(ctx, 1<<20)
			if err != nil {
				t.Error(err)
			}
			arrived <- got{id, b, string(m.User)}
			// A callback may answer its sender.
			back, err := NewUCXXEndpoint(m.From)
			if err == nil {
				err = back.SendAM(ctx, Bytes([]byte("answer")), UCXXOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{3, 200_000} {
		want := testBytes(5, n)
		for _, callback := range []UCXXCallback{callbacks[1], callbacks[0], callbacks[2]} {
			id := callback.ID
			err := c.SendAM(ctx, Bytes(want), UCXXOptions{Callback: &callback, User: []byte("hi")})
			if err != nil {
				t.Fatal(err)
			}
			g := <-arrived
			if g.id != id || g.user != "hi" || !bytes.Equal(g.data, want) {
				t.Errorf("callback %d got %d bytes for %d, user header %q", g.id, len(g.data), id, g.user)
			}
			m, err := c.RecvAM(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := m.Bytes(ctx, 10); err != nil || string(b) != "answer" {
				t.Errorf("answer %q, %v", b, err)
			}
		}
	}
	if s.ProbeAM() {
		t.Error("a message to a callback is in the endpoint's queue")
	}
	if err := ws.HandleUCXX(ctx, UCXXCallback{"app", 1}, nil); err == nil {
		t.Error("a second handler was accepted")
	}
	if err := ws.HandleUCXX(ctx, UCXXCallback{strings.Repeat("x", 64), 1}, nil); err == nil {
		t.Error("too long an owner was accepted")
	}
	if err := c.SendAM(ctx, Bytes(nil), UCXXOptions{Callback: &UCXXCallback{Owner: "a\x00b"}}); err == nil {
		t.Error("an owner with a zero byte was sent")
	}
	// Nobody handles this one: it is dropped, the connection lives.
	if err := c.SendAM(ctx, Bytes(make([]byte, 5000)), UCXXOptions{Callback: &UCXXCallback{"nobody", 9}}); err != nil {
		t.Fatal(err)
	}
	if err := c.SendAM(ctx, Bytes([]byte("alive")), UCXXOptions{}); err != nil {
		t.Fatal(err)
	}
	if m, err := s.RecvAM(ctx); err != nil || m.Len != 5 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestUCXXMemoryPolicy(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	// Headers as a sender of device memory writes them, with data that is here after all.
	send := func(memtype int32, p ucxxwire.AMPolicy) *UCXXMessage {
		h := ucxxwire.AMHeader{MemoryType: memtype, Policy: p}
		b, err := h.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Endpoint().sendAM(ctx, ucxxwire.AMID, b, AMOptions{Reply: true},
			[]View{Bytes([]byte("data"))}); err != nil {
			t.Fatal(err)
		}
		m, err := s.RecvAM(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	device := &countingResource{Resource: mem.Heap, failAt: -1}
	for name, test := range map[string]struct {
		memtype int32
		policy  ucxxwire.AMPolicy
		alloc   Allocators
		kind    mem.Kind
		device  int // allocations from the device's resource
		err     error
	}{
		"falls back":       {1, ucxxwire.AMFallbackToHost, Allocators{}, mem.Device, 0, nil},
		"insists":          {1, ucxxwire.AMErrorOnUnsupported, Allocators{}, mem.Device, 0, errUnsupported},
		"insists, served":  {1, ucxxwire.AMErrorOnUnsupported, Allocators{Device: device}, mem.Device, 1, nil},
		"managed":          {2, ucxxwire.AMFallbackToHost, Allocators{Device: device}, mem.Managed, 1, nil},
		"unknown":          {5, ucxxwire.AMFallbackToHost, Allocators{Device: device}, mem.Host, 0, nil},
		"unknown, insists": {5, ucxxwire.AMErrorOnUnsupported, Allocators{Device: device}, mem.Host, 0, errUnsupported},
		"too long":         {0, ucxxwire.AMFallbackToHost, Allocators{MaxBytes: 3}, mem.Host, 0, ErrExceedsLimit},
	} {
		device.asked = nil
		m := send(test.memtype, test.policy)
		if m.Kind != test.kind {
			t.Errorf("%s: kind %v", name, m.Kind)
		}
		b, err := m.Buffer(ctx, test.alloc)
		if !errors.Is(err, test.err) || test.err == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && string(b.Bytes()) != "data" || len(device.asked) != test.device {
			t.Errorf("%s: wrong data, or the device's resource was asked for %v", name, device.asked)
		}
	}
}

// Broken headers are dropped without harm.
func TestUCXXBrokenHeaders(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	for _, h := range [][]byte{nil, {1}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0, 2}, bytes.Repeat([]byte{1}, 80)} {
		for _, n := range []int{0, 100_000} {
			if err := c.Endpoint().sendAM(ctx, ucxxwire.AMID, h, AMOptions{Reply: true, Eager: true},
				[]View{Bytes(make([]byte, n))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// UCX-Py's form is the memory type alone.
	if err := c.Endpoint().sendAM(ctx, ucxxwire.AMID, []byte{0, 0, 0, 0}, AMOptions{Reply: true},
		[]View{Bytes([]byte("old"))}); err != nil {
		t.Fatal(err)
	}
	m, err := s.RecvAM(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := m.Bytes(ctx, 100); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := m.Bytes(ctx, 100); err == nil {
		t.Error("a message was received twice")
	}
}

func TestUCXXMessageEnds(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	for range 3 {
		if err := c.SendAM(ctx, Bytes([]byte("kept")), UCXXOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for s.ProbeAM(); s.Endpoint().ucxx.Load() == nil || s.Endpoint().ucxx.Load().len() < 3; s.ProbeAM() {
		if ctx.Err() != nil {
			t.Fatal("the messages did not arrive")
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	waitDone(t, ctx, s.Endpoint())
	for i := range 3 {
		m, err := s.RecvAM(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		m.Release()
	}
	if _, err := s.RecvAM(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.RecvAM(ctx); err == nil {
		t.Error("receive on a closed endpoint succeeded")
	}
}

func TestUCXXMessageQueueBound(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{MaxQueuedMessages: 1 << 20})
	var err error
	for i := 0; i < 20_000 && err == nil; i++ {
		err = c.SendAM(ctx, Bytes(make([]byte, 1000)), UCXXOptions{})
	}
	if !errors.Is(err, io.EOF) {
		t.Fatalf("20 MB queued for nobody: %v", err)
	}
	waitDone(t, ctx, s.Endpoint())
	if !errors.Is(s.Err(), ErrExceedsLimit) {
		t.Errorf("endpoint's error is %v", s.Err())
	}
}

// The id of UCXX's messages cannot be had twice.
func TestUCXXIDTaken(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	if err := w.OpenAM(ucxxwire.AMID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ListenUCXX(ctx, "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "RecvAM") {
		t.Errorf("got %v", err)
	}
}

// Endpoints from worker addresses have no handshake, as in UCXX.
func TestUCXXWithoutHandshake(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	var eps [2]*UCXXEndpoint
	for i, ws := range [2][2]*Worker{{wa, wb}, {wb, wa}} {
		addr, err := ws[1].Address()
		if err != nil {
			t.Fatal(err)
		}
		ep, err := ws[0].Connect(addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if eps[i], err = NewUCXXEndpoint(ep); err != nil {
			t.Fatal(err)
		}
	}
	a, b := eps[0], eps[1]
	if err := a.Send(ctx, Bytes([]byte{1}), DefaultTag); err == nil || !strings.Contains(err.Error(), "ForceTag") {
		t.Errorf("default tag: %v", err)
	}
	if _, err := a.Recv(ctx, Bytes([]byte{1}), UserTag(1)); err == nil || !strings.Contains(err.Error(), "ForceTag") {
		t.Errorf("user tag: %v", err)
	}
	if err := a.SendMulti(ctx, ForceTag(5), Bytes([]byte("abc"))); err != nil {
		t.Fatal(err)
	}
	f, err := b.RecvMulti(ctx, ForceTag(5), Allocators{})
	if err != nil || string(f[0].Bytes()) != "abc" {
		t.Errorf("%v, %v", f, err)
	}
	if err := a.SendAM(ctx, Bytes([]byte("am")), UCXXOptions{}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := b.RecvAM(short)
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
}
