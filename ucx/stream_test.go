package ucx

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// streamSettings are the transports that the stream, frame and UCXX tests go over.
var streamSettings = []struct {
	name string
	cfg  Config
}{
	{"auto", Config{}},
	{"shm", Config{Options: map[string]string{"TLS": "posix,sysv,self,tcp"}}},
	{"tcp", Config{Options: map[string]string{"TLS": "tcp"}}},
}

func testBytes(seed uint64, n int) []byte {
	b := make([]byte, n, n+8)
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:i+8:i+8], r.Uint64())
	}
	return b
}

// waitDone waits for the end of endpoints.
func waitDone(t *testing.T, ctx context.Context, eps ...*Endpoint) {
	t.Helper()
	for _, ep := range eps {
		select {
		case <-ep.Done():
		case <-ctx.Done():
			t.Fatalf("%v is still open", ep)
		}
	}
}

func TestStreamOrderAndBoundaries(t *testing.T) {
	for _, set := range streamSettings {
		t.Run(set.name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, set.cfg, WorkerConfig{})
			sizes := []int{1, 8, 1023, 1024, 1025, 8191, 8192, 8193, 100_000, 1 << 20}
			total := 0
			for _, n := range sizes {
				total += n
			}
			all := testBytes(1, total)
			sent := make(chan error, 1)
			go func() {
				rest := all
				for _, n := range sizes {
					if err := a.SendStream(ctx, Bytes(rest[:n])); err != nil {
						sent <- err
						return
					}
					rest = rest[n:]
				}
				sent <- nil
			}()
			// The reader's pieces have nothing to do with the writer's.
			got := make([]byte, total)
			for at, i := 0, 0; at < total; i++ {
				want := min(total-at, []int{7, 3000, 64 << 10}[i%3])
				waitAll := i%2 == 0
				n, err := b.RecvStream(ctx, Bytes(got[at:at+want]), waitAll)
				if err != nil {
					t.Fatal(err)
				}
				if n < 1 || n > want || waitAll && n != want {
					t.Fatalf("received %d of %d bytes, waitAll %v", n, want, waitAll)
				}
				at += n
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, all) {
				t.Error("the stream's bytes differ")
			}
		})
	}
}

// UCX 1.16 to 1.22 return a status that nobody has set when a receive takes several
// arrived pieces at once: what an earlier request left in its place, here a cancel.
func TestStreamStaleStatus(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	for i := range 50 {
		want := testBytes(uint64(i), 20)
		for _, p := range [][]byte{want[:7], want[7:]} {
			if err := a.SendStream(ctx, Bytes(p)); err != nil {
				t.Fatal(err)
			}
		}
		// Behind them, so that both have arrived.
		if err := a.Send(ctx, Bytes(nil), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Recv(ctx, Bytes(nil), 1, FullMask); err != nil {
			t.Fatal(err)
		}
		r := b.StartRecv(Bytes(make([]byte, 8)), 9, FullMask)
		r.Cancel()
		if err := r.Wait(ctx); !errors.Is(err, errCanceled) {
			t.Fatalf("cancelled receive: %v", err)
		}
		got := make([]byte, 20)
		if n, err := b.RecvStream(ctx, Bytes(got), true); err != nil || n != 20 || !bytes.Equal(got, want) {
			t.Fatalf("round %d: received %d bytes, %v", i, n, err)
		}
	}
}

func TestStreamStart(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	first, second := make([]byte, 3000), make([]byte, 500)
	r1, r2 := b.StartRecvStream(Bytes(first), true), b.StartRecvStream(Bytes(second), true)
	all := testBytes(2, 3500)
	s1, s2 := a.StartSendStream(Bytes(all[:100])), a.StartSendStream(Bytes(all[100:]))
	for i, r := range []*Request{s1, s2, r1, r2} {
		if err := r.Wait(ctx); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if r1.Info().Len != 3000 || r2.Info().Len != 500 {
		t.Errorf("lengths %d, %d", r1.Info().Len, r2.Info().Len)
	}
	if !bytes.Equal(first, all[:3000]) || !bytes.Equal(second, all[3000:]) {
		t.Error("receives were not filled in the order of their start")
	}
}

// An ended context must not leave a receive behind that takes later bytes, neither
// one in the slot's own memory nor one in the caller's.
func TestStreamCancelClosesEndpoint(t *testing.T) {
	for _, n := range []int{16, 4096} {
		for _, sent := range []int{0, 10} {
			t.Run(fmt.Sprintf("%d bytes, %d sent", n, sent), func(t *testing.T) {
				ctx := testContext(t)
				a, b := pair(t, Config{}, WorkerConfig{})
				if err := a.SendStream(ctx, Bytes(testBytes(3, sent))); err != nil {
					t.Fatal(err)
				}
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				buf := bytes.Repeat([]byte{0xcc}, n)
				_, err := b.RecvStream(short, Bytes(buf), true)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v", err)
				}
				after := bytes.Clone(buf)
				waitDone(t, ctx, b)
				if !errors.Is(b.Err(), context.DeadlineExceeded) {
					t.Errorf("endpoint's error is %v", b.Err())
				}
				waitDone(t, ctx, a) // the peer is told
				if err := a.SendStream(ctx, Bytes(testBytes(4, n))); err == nil {
					t.Error("a send on the closed connection succeeded")
				}
				time.Sleep(20 * time.Millisecond)
				if !bytes.Equal(buf, after) {
					t.Error("memory was written after the call had returned")
				}
			})
		}
	}
}

func TestStreamContextEndedBefore(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.RecvStream(ended, Bytes(make([]byte, 8)), true); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := a.SendStream(ended, Bytes([]byte("lost"))); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// Nothing was started, so the connection is whole.
	if err := a.SendStream(ctx, Bytes([]byte("whole"))); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	if n, err := b.RecvStream(ctx, Bytes(buf), true); err != nil || n != 5 || string(buf) != "whole" {
		t.Fatalf("received %d bytes %q, %v", n, buf, err)
	}
}

func TestStreamPeerCloses(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	r := b.StartRecvStream(Bytes(make([]byte, 64)), true)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("pending receive ended with %v, want the peer's close", err)
	}
	if _, err := b.RecvStream(ctx, Bytes(make([]byte, 64)), false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("receive after the close: %v", err)
	}
	if err := a.SendStream(ctx, Bytes([]byte{1})); !errors.Is(err, net.ErrClosed) {
		t.Errorf("send after own close: %v", err)
	}
}

func TestStreamEmptyAndRefused(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	if err := a.SendStream(ctx, Bytes(nil)); err != nil {
		t.Error(err)
	}
	if err := a.StartSendStream(Bytes(nil)).Wait(ctx); err != nil {
		t.Error(err)
	}
	if n, err := b.RecvStream(ctx, Bytes(nil), true); n != 0 || err != nil {
		t.Error(n, err)
	}
	bad := Bytes(make([]byte, 4)).Slice(2, 4)
	if err := a.SendStream(ctx, bad); err == nil || !strings.Contains(err.Error(), "slice [2:6]") {
		t.Errorf("bad view: %v", err)
	}
	if err := b.StartRecvStream(bad, true).Wait(ctx); err == nil {
		t.Error("bad view was received into")
	}
	ro := View{ptr: Bytes([]byte{1}).ptr, n: 1, device: -1, readOnly: true}
	if _, err := b.RecvStream(ctx, ro, true); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("read-only view: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := a.SendStream(ctx, Bytes(nil)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("empty send on a closed endpoint: %v", err)
	}
}

// TestStreamProgressModes moves streams, frames and multi-buffer messages in each progress mode and thread mode.
func TestStreamProgressModes(t *testing.T) {
	for _, wcfg := range []WorkerConfig{{Progress: Adaptive}, {Progress: Polling}, {Progress: Thread},
		{threads: threadSingle}, {threads: threadMulti}} {
		t.Run(fmt.Sprintf("%v/threads %d", wcfg.Progress, wcfg.threads), func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, wcfg)
			c, s := ucxxPair(t, Config{}, wcfg)
			for _, n := range []int{1, 5000, 1 << 20} {
				want, got := testBytes(uint64(n), n), make([]byte, n)
				if err := both(func() error { return a.SendStream(ctx, Bytes(want)) },
					func() error { _, err := b.RecvStream(ctx, Bytes(got), true); return err }); err != nil ||
					!bytes.Equal(got, want) {
					t.Errorf("stream of %d bytes: got %d equal bytes %v, %v", n, len(got), bytes.Equal(got, want), err)
				}
				frames := frameSet(3, n, 0, 7)
				check := func(name string, send func() error, recv func() (Frames, error)) {
					if err := both(send, func() error {
						f, err := recv()
						if err == nil {
							err = sameFrames(f, frames)
						}
						f.Release()
						return err
					}); err != nil {
						t.Errorf("%s of %d bytes: %v", name, n, err)
					}
				}
				check("frames", func() error { return a.SendFrames(ctx, viewsOf(frames)...) },
					func() (Frames, error) { return b.RecvFrames(ctx, Allocators{}) })
				check("multi-buffer message", func() error { return c.SendMulti(ctx, DefaultTag, viewsOf(frames)...) },
					func() (Frames, error) { return s.RecvMulti(ctx, DefaultTag, Allocators{}) })
			}
		})
	}
}
