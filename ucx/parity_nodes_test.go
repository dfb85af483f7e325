package ucx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
)

// echo answers each message on an endpoint with the next tag, until the peer closes: as
// soon as it has its last answer, which may be before this side's UCX knows.
func echo(ctx context.Context, ep *Endpoint, tag uint64, n int) error {
	buf := make([]byte, n)
	for {
		info, err := ep.Recv(ctx, Bytes(buf), tag, FullMask)
		if err == nil {
			err = ep.Send(ctx, Bytes(buf[:info.Len]), tag+1)
		}
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ask sends one message and compares the answer.
func ask(ctx context.Context, ep *Endpoint, tag uint64, data []byte) error {
	got := make([]byte, len(data))
	err := both(func() error { return ep.Send(ctx, Bytes(data), tag) },
		func() error { _, err := ep.Recv(ctx, Bytes(got), tag+1, FullMask); return err })
	if err == nil && string(got) != string(data) {
		err = fmt.Errorf("the answer to tag %x differs", tag)
	}
	return err
}

// Several servers and many clients at once, each client connected to every server, in
// both ways of meeting.
func TestManyServersManyClients(t *testing.T) {
	const servers, clients, rounds = 3, 8, 5
	for _, m := range meetings {
		t.Run(m.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var addrs []string
			var serving sync.WaitGroup
			failed := make(chan error, servers*clients*2)
			for range servers {
				l, err := m.listen(ctx, newWorker(t, Config{}, WorkerConfig{}), "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				addrs = append(addrs, l.Addr().String())
				serving.Go(func() {
					defer l.Close()
					for range clients {
						ep, err := l.Accept(ctx)
						if err != nil {
							failed <- err
							return
						}
						serving.Go(func() {
							// Tags are matched per worker: the client says which are its own.
							var first [8]byte
							if _, err := ep.RecvStream(ctx, Bytes(first[:]), true); err != nil {
								failed <- err
								return
							}
							failed <- echo(ctx, ep, uint64(first[0])<<8, 1<<16)
							_ = ep.Close()
						})
					}
				})
			}
			var asking sync.WaitGroup
			for c := range clients {
				w := newWorker(t, Config{}, WorkerConfig{})
				asking.Go(func() {
					for s, addr := range addrs {
						failed <- func() error {
							ep, err := m.dial(ctx, w, addr)
							if err != nil {
								return err
							}
							id := byte(c*servers + s + 1)
							if err := ep.SendStream(ctx, Bytes([]byte{id, 0, 0, 0, 0, 0, 0, 0})); err != nil {
								return err
							}
							for r := range rounds {
								if err := ask(ctx, ep, uint64(id)<<8, testBytes(uint64(id)*100+uint64(r),
									1<<(3*r+2))); err != nil {
									return fmt.Errorf("client %d, server %d, round %d: %w", c, s, r, err)
								}
							}
							return ep.Close()
						}()
					}
				})
			}
			asking.Wait()
			serving.Wait()
			close(failed)
			n := 0
			for err := range failed {
				if n++; err != nil {
					t.Error(err)
				}
			}
			if n != 2*servers*clients {
				t.Errorf("%d ends of connections were counted, want %d", n, 2*servers*clients)
			}
		})
	}
}

// Workers of one context are separate: what one receives another does not see, and one's
// end leaves the others alone.
func TestTwoWorkers(t *testing.T) {
	ctx := testContext(t)
	c := openContext(t, Config{})
	var ws []*Worker
	var eps []*Endpoint
	for range 2 {
		w, err := c.NewWorker(WorkerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		ws = append(ws, w)
	}
	for i := range ws {
		addr, err := ws[1-i].Address()
		if err != nil {
			t.Fatal(err)
		}
		ep, err := ws[i].Connect(addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		eps = append(eps, ep)
	}
	for range 20 { // both directions at once, with the same tag
		x, y := make([]byte, 6), make([]byte, 6)
		err := both(func() error {
			return both(func() error { return eps[0].Send(ctx, Bytes([]byte("from 0")), 1) },
				func() error { _, err := ws[0].Recv(ctx, Bytes(x), 1, FullMask); return err })
		}, func() error {
			return both(func() error { return eps[1].Send(ctx, Bytes([]byte("from 1")), 1) },
				func() error { _, err := ws[1].Recv(ctx, Bytes(y), 1, FullMask); return err })
		})
		if err != nil || string(x) != "from 1" || string(y) != "from 0" {
			t.Fatalf("%q, %q, %v", x, y, err)
		}
	}
	if err := ws[0].Close(); err != nil {
		t.Fatal(err)
	}
	addr, err := ws[1].Address()
	if err != nil {
		t.Fatal(err)
	}
	self, err := ws[1].Connect(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if err := both(func() error { return self.Send(ctx, Bytes([]byte("alive")), 2) },
		func() error { _, err := ws[1].Recv(ctx, Bytes(got), 2, FullMask); return err }); err != nil ||
		string(got) != "alive" {
		t.Errorf("the other worker: %q, %v", got, err)
	}
}

// Two workers of one context do not share a fate: a message that waits on one does not
// keep another from working.
func TestWorkersDoNotWaitForEachOther(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	waiting := b.StartRecv(Bytes(make([]byte, 1)), 99, FullMask)
	c, d := pair(t, Config{}, WorkerConfig{})
	go echo(ctx, d, 1, 64)
	for range 50 {
		if err := ask(ctx, c, 1, []byte("busy")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-waiting.Done():
		t.Fatalf("the waiting receive ended: %v", waiting.Err())
	default:
	}
	if err := errors.Join(a.Send(ctx, Bytes([]byte{1}), 99), waiting.Wait(ctx)); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
