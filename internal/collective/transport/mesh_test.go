package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	_ "go.millstream.dev/internal/comm/tcp"
)

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// meshes connects n ranks.
func meshes(ctx context.Context, t testing.TB, scheme string, n int) []Transport {
	t.Helper()
	address := scheme + "://"
	if scheme == "tcp" {
		address += "127.0.0.1:0"
	}
	l, err := comm.Listen(ctx, address, comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := make([][]comm.Comm, n)
	for r := range all {
		all[r] = make([]comm.Comm, n)
	}
	for i := range n {
		for j := range i {
			dialed := make(chan comm.Comm, 1)
			go func() {
				c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{})
				if err != nil {
					t.Error(err)
				}
				dialed <- c
			}()
			if all[j][i], err = l.Accept(ctx); err != nil {
				t.Fatal(err)
			}
			if all[i][j] = <-dialed; all[i][j] == nil {
				t.FailNow()
			}
		}
	}
	ts := make([]Transport, n)
	for r := range ts {
		if ts[r], err = NewComm(r, all[r]); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		var closing sync.WaitGroup
		for _, x := range ts {
			closing.Go(func() {
				if err := errors.Join(x.Close(), x.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		closing.Wait()
	})
	return ts
}

var schemes = []string{"inproc", "tcp"}

func message(from, to, ch, i, n int) []byte {
	b := bytes.Repeat([]byte{byte(from*31 + to*7 + ch*3 + i)}, n)
	if n >= 8 {
		binary.LittleEndian.PutUint64(b, uint64(i))
	}
	return b
}

// TestChannels: messages of one channel keep their order, channels do not wait for each other: one to four ranks, sizes
// from nothing to more than a socket holds, received before and after they come, in the order of channels and against
// it.
func TestChannels(t *testing.T) {
	const channels, each = 3, 4
	for _, scheme := range schemes {
		for n := 1; n <= 4; n++ {
			for _, size := range []int{0, 1, 9, 5000, 300_000} {
				t.Run(fmt.Sprintf("%s %d ranks %d bytes", scheme, n, size), func(t *testing.T) {
					ctx := testContext(t)
					ts := meshes(ctx, t, scheme, n)
					var all sync.WaitGroup
					for r, x := range ts {
						if x.Rank() != r || x.Size() != n || x.Name() == "" {
							t.Fatalf("rank %d of %d %q", x.Rank(), x.Size(), x.Name())
						}
						all.Go(func() {
							var sends []Pending
							for ch := range channels {
								for i := range each {
									for to := range n {
										sends = append(sends, x.StartSend(to, uint64(ch), message(r, to, ch, i, size)))
									}
								}
							}
							for _, s := range sends {
								if m, err := s.Wait(ctx); err != nil || m != size {
									t.Errorf("rank %d sent %d bytes: %v", r, m, err)
								}
							}
						})
						all.Go(func() {
							for c := range channels {
								ch := c
								if r%2 == 1 {
									ch = channels - 1 - c // against the order of sending
								}
								for from := range n {
									for i := range each {
										buf := make([]byte, size+1)
										var m int
										var err error
										if i%2 == 0 {
											m, err = x.Recv(ctx, from, uint64(ch), buf)
										} else {
											m, err = x.StartRecv(from, uint64(ch), buf).Wait(ctx)
										}
										if err != nil || !bytes.Equal(buf[:m], message(from, r, ch, i, size)) {
											t.Errorf("rank %d from %d, channel %d, message %d: %d bytes, %v", r, from,
												ch, i, m, err)
										}
									}
								}
							}
						})
					}
					all.Wait()
				})
			}
		}
	}
}

// TestGivenUp: a receive that nothing has come for is taken back when its context ends, and the message goes to the
// next.
func TestGivenUp(t *testing.T) {
	for _, scheme := range schemes {
		ctx := testContext(t)
		ts := meshes(ctx, t, scheme, 2)
		canceled, cancel := context.WithCancel(ctx)
		why := ts[0].StartRecv(1, 5, make([]byte, 4))
		cancel()
		if _, err := why.Wait(canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the context's error", scheme, err)
		}
		if err := ts[1].Send(ctx, 0, 5, []byte("next")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4)
		if n, err := ts[0].Recv(ctx, 1, 5, buf); err != nil || string(buf[:n]) != "next" {
			t.Errorf("%s: %q, %v", scheme, buf[:n], err)
		}
	}
}

// TestTooLong: a message that is longer than its buffer is lost and an error, and the next one comes.
func TestTooLong(t *testing.T) {
	for _, scheme := range schemes {
		for _, late := range []bool{false, true} { // the receive is there first, or the message
			ctx := testContext(t)
			ts := meshes(ctx, t, scheme, 2)
			var p Pending
			if !late {
				p = ts[1].StartRecv(0, 1, make([]byte, 3))
			}
			for _, text := range []string{"long", "ok"} {
				if err := ts[0].Send(ctx, 1, 1, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			if late {
				p = ts[1].StartRecv(0, 1, make([]byte, 3))
			}
			if _, err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "4 bytes exceeds the buffer of 3") {
				t.Errorf("%s: %v", scheme, err)
			}
			buf := make([]byte, 3)
			if n, err := ts[1].Recv(ctx, 0, 1, buf); err != nil || string(buf[:n]) != "ok" {
				t.Errorf("%s: %q, %v", scheme, buf[:n], err)
			}
		}
	}
}

// TestEnds checks how the end of a rank is reported to the others: leaving, an abort with its reason, a loss.
func TestEnds(t *testing.T) {
	for _, scheme := range schemes {
		for _, how := range []string{"leaves", "aborts", "dies"} {
			t.Run(scheme+" "+how, func(t *testing.T) {
				ctx := testContext(t)
				ts := meshes(ctx, t, scheme, 3)
				if err := ts[2].Send(ctx, 0, 1, []byte("last")); err != nil {
					t.Fatal(err)
				}
				waiting := ts[0].StartRecv(2, 9, make([]byte, 1))
				switch how {
				case "leaves":
					if err := ts[2].Close(); err != nil {
						t.Fatal(err)
					}
				case "aborts":
					ts[2].Abort(&RankError{Rank: 2, Reason: strings.Repeat("x", maxReason) + "cut off"})
					ts[2].Abort(&RankError{Rank: 1, Reason: "the second does not count"})
				case "dies":
					Kill(ts[2])
				}
				for _, r := range []int{0, 1} {
					select {
					case e := <-ts[r].Failures():
						if e.Rank != 2 || Left(e) != (how == "leaves") {
							t.Errorf("rank %d: unexpected failure %+v", r, e)
						}
						if how == "aborts" && e.Reason != strings.Repeat("x", maxReason) {
							t.Errorf("rank %d: unexpected reason of %d bytes", r, len(e.Reason))
						}
					case <-ctx.Done():
						t.Fatalf("rank %d: no failure reported", r)
					}
				}
				buf := make([]byte, 4)
				if how == "aborts" {
					return // its own end is all that it says of receives
				}
				// Messages sent before leaving can be received; others fail with an error that names the rank.
				if how == "leaves" {
					if n, err := ts[0].Recv(ctx, 2, 1, buf); err != nil || string(buf[:n]) != "last" {
						t.Errorf("the last message: %q, %v", buf[:n], err)
					}
				}
				later := ts[0].StartRecv(2, 8, buf)
				for what, p := range map[string]Pending{"waiting": waiting, "later": later} {
					var e *RankError
					if _, err := p.Wait(ctx); !errors.As(err, &e) || e.Rank != 2 {
						t.Errorf("%s receive: %v, want the end of rank 2", what, err)
					}
				}
			})
		}
	}
}

// TestAfterAbort: the rank that aborts has its own error from then on, and the others still talk to each other.
func TestAfterAbort(t *testing.T) {
	ctx := testContext(t)
	ts := meshes(ctx, t, "inproc", 3)
	waiting := ts[0].StartRecv(1, 1, make([]byte, 1))
	mine := &RankError{Rank: 0, Reason: "had enough"}
	ts[0].Abort(mine)
	for what, p := range map[string]Pending{"waiting": waiting, "later": ts[0].StartRecv(1, 2, nil)} {
		if _, err := p.Wait(ctx); err != mine {
			t.Errorf("%s receive: %v, want %v", what, err, mine)
		}
	}
	if err := ts[1].Send(ctx, 2, 3, []byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := ts[2].Recv(ctx, 1, 3, make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestClosed: nothing works on a closed transport, and nothing hangs.
func TestClosed(t *testing.T) {
	for _, scheme := range schemes {
		ctx := testContext(t)
		ts := meshes(ctx, t, scheme, 2)
		waiting := ts[0].StartRecv(1, 1, make([]byte, 1))
		if err := ts[0].Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := waiting.Wait(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: waiting receive: %v", scheme, err)
		}
		if err := ts[0].Send(ctx, 1, 1, []byte("x")); err == nil {
			t.Errorf("%s: sent", scheme)
		}
		if _, err := ts[0].Recv(ctx, 1, 1, make([]byte, 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: receive: %v", scheme, err)
		}
		for range ts[0].Failures() { // it is closed
		}
	}
}

// TestUnasked checks that a rank fails that sends without end to a rank that does not receive.
func TestUnasked(t *testing.T) {
	b := &inbox{from: 3}
	released := 0
	part := make([]byte, maxUnreceived/4)
	for i := range 4 {
		if err := b.put(uint64(i), part, func() { released++ }); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.put(9, []byte{1}, func() {}); err == nil || !strings.Contains(err.Error(), "rank 3") {
		t.Errorf("%v, want an error that names rank 3", err)
	}
	if _, err := b.start(0, make([]byte, len(part))).Wait(context.Background()); err != nil {
		t.Error(err)
	}
	if released != 1 {
		t.Errorf("%d messages were given back after one was received", released)
	}
	b.clear()
	if released != 4 {
		t.Errorf("%d messages were given back in the end, want 4", released)
	}
}

// TestHostileMessages: what is no message of a group ends the connection, not the process.
func TestHostileMessages(t *testing.T) {
	for name, b := range map[string][]byte{"nothing": {}, "short": {1, 2}, "long": make([]byte, 10),
		"kind 0": make([]byte, 9),
		"kind 4": {4, 0, 0, 0, 0, 0, 0, 0, 0}} {
		if _, _, err := parseHead(b); err == nil {
			t.Errorf("%s is a head", name)
		}
	}
	for name, b := range map[string][]byte{"short": {1, 0, 0}, "rank 4 of 4": {4, 0, 0, 0},
		"rank -1": {255, 255, 255, 255, 'x'},
		"long":    make([]byte, 5+maxReason)} {
		if e, err := parseAbort(b, 4); err == nil {
			t.Errorf("%s is an abort: %+v", name, e)
		}
	}
	if _, err := NewComm(0, nil); err == nil {
		t.Error("a rank of no ranks")
	}
	if _, err := NewComm(0, make([]comm.Comm, 2)); err == nil {
		t.Error("a rank without a connection")
	}
	if _, err := NewComm(1, make([]comm.Comm, 1)); err == nil {
		t.Error("rank 1 of 1")
	}
}
