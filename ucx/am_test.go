package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/ucx/internal/obs"
)

// A message for an id that nobody opened is dropped; UCX before 1.21 would follow a
// wild pointer. The connection stays usable.
func TestUnopenedMessageID(t *testing.T) {
	for _, transport := range []string{"self", "shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			ctx := testContext(t)
			a, b := transportPair(t, transport, WorkerConfig{})
			for _, id := range []uint16{0, 5, 1023, 1040, 40000, 65535} {
				for _, n := range []int{0, 100, 5000, 100000} {
					// A rendezvous that the receiver refuses may end in an error; it ends.
					err := a.SendAM(ctx, id, []byte("lost"), AMOptions{}, Bytes(make([]byte, n)))
					if err != nil && n <= eagerLimit {
						t.Fatalf("id %d, %d bytes: %v", id, n, err)
					}
					if ctx.Err() != nil {
						t.Fatalf("id %d, %d bytes: the send hangs", id, n)
					}
				}
			}
			if err := b.Worker().OpenAM(9); err != nil {
				t.Fatal(err)
			}
			err := both(func() error { return a.SendAM(ctx, 9, []byte("kept"), AMOptions{}) }, func() error {
				m, err := b.Worker().RecvAM(ctx, 9)
				if err == nil && string(m.Header) != "kept" {
					err = fmt.Errorf("header %q", m.Header)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestReservedMessageIDs(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	for _, id := range []uint16{reservedAM, reservedTo, deviceAM, kindAMEnd - 1} {
		_, recvErr := b.Worker().RecvAM(ctx, id)
		for what, err := range map[string]error{
			"SendAM": a.SendAM(ctx, id, nil, AMOptions{}), "StartSendAM": a.StartSendAM(id, nil, AMOptions{}).Err(),
			"OpenAM": b.Worker().OpenAM(id), "RecvAM": recvErr,
			"HandleAM": b.Worker().HandleAM(ctx, id, func(context.Context, *AM) {}),
		} {
			if err == nil || !strings.Contains(err.Error(), "reserved") {
				t.Errorf("%s of id %d: %v", what, id, err)
			}
		}
	}
}

func TestMessageHeaders(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	if err := b.Worker().OpenAM(1); err != nil {
		t.Fatal(err)
	}
	info, err := a.Worker().Info()
	if err != nil {
		t.Fatal(err)
	}
	limit := info.MaxHeader
	if limit < 128 {
		t.Fatalf("got MaxHeader %d, want at least 128", limit)
	}
	for _, n := range []int{0, 1, 127, 128, 129, limit - 1, limit} {
		h := testBytes(1, n)
		if err := a.SendAM(ctx, 1, h, AMOptions{}, Bytes([]byte("data"))); err != nil {
			t.Fatalf("header of %d bytes: %v", n, err)
		}
		m, err := b.Worker().RecvAM(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		d, err := m.Bytes(ctx, 4)
		if !bytes.Equal(m.Header, h) || string(d) != "data" || err != nil {
			t.Errorf("header of %d bytes arrived with %d; data %q, %v", n, len(m.Header), d, err)
		}
	}
	err = a.SendAM(ctx, 1, make([]byte, limit+1), AMOptions{})
	if !errors.Is(err, ErrExceedsLimit) || !strings.Contains(err.Error(), fmt.Sprint(limit)) {
		t.Errorf("too long a header: %v", err)
	}
}

// A receive that cannot take the message refuses it and leaves it whole.
func TestMessageReceiveRefused(t *testing.T) {
	for _, n := range []int{100, 5000, 100000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, transportConfig("shm"), WorkerConfig{})
			if err := b.Worker().OpenAM(1); err != nil {
				t.Fatal(err)
			}
			data := testBytes(2, n)
			s := a.StartSendAM(1, nil, AMOptions{}, Bytes(data))
			m, err := b.Worker().RecvAM(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			short := make([]byte, n-1)
			var te *TruncatedError
			for what, err := range map[string]error{"Recv": m.Recv(ctx, Bytes(short)),
				"StartRecv": m.StartRecv(Bytes(short)).Err()} {
				if !errors.As(err, &te) || te.Message != n || te.Buffer != n-1 {
					t.Errorf("%s into a short buffer: %v", what, err)
				}
			}
			if _, err := m.Bytes(ctx, n-1); !errors.As(err, &te) {
				t.Errorf("Bytes beyond the limit: %v", err)
			}
			ro := View{ptr: Bytes(make([]byte, n)).ptr, n: n, device: -1, readOnly: true}
			if err := m.Recv(ctx, ro); err == nil || !strings.Contains(err.Error(), "read-only") {
				t.Errorf("Recv into read-only memory: %v", err)
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if err := m.Recv(ended, Bytes(make([]byte, n))); !errors.Is(err, context.Canceled) {
				t.Errorf("Recv with an ended context: %v", err)
			}
			got, err := m.Bytes(ctx, n)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("after the refusals: %d bytes, %v", len(got), err)
			}
			if err := s.Wait(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// A receiver that takes nothing has a bound: beyond it the sender hears that it failed.
func TestMessagesBounded(t *testing.T) {
	for _, n := range []int{1000, 6000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ctx := testContext(t)
			dropped := make(chan obs.Drop, 1)
			cfg := transportConfig("tcp")
			wa := newWorker(t, cfg, WorkerConfig{})
			cfg.Events.MessageDropped = func(d obs.Drop) {
				select { // a hook must not block: thousands may be under way when the first is refused
				case dropped <- d:
				default:
				}
			}
			wb := newWorker(t, cfg, WorkerConfig{MaxQueuedMessages: 100 << 10})
			a, b := connectPair(t, ctx, wa, wb)
			if err := wb.OpenAM(1); err != nil {
				t.Fatal(err)
			}
			var err error
			for err == nil { // the sockets between the two hold megabytes; ctx ends a test that fails
				err = a.SendAM(ctx, 1, nil, AMOptions{Reply: true}, Bytes(make([]byte, n)))
			}
			if ctx.Err() != nil {
				t.Fatal("messages that nobody took were accepted for ever")
			}
			select {
			case d := <-dropped:
				if d.ID != 1 || d.Bytes != n {
					t.Errorf("event says %+v", d)
				}
			case <-ctx.Done():
				t.Error("no event told of the drop")
			}
			<-b.Done()
			if !errors.Is(b.Err(), ErrExceedsLimit) {
				t.Errorf("the receiver's endpoint says %v", b.Err())
			}
			// What was accepted before is still there.
			m, err := wb.RecvAM(ctx, 1)
			if err != nil || m.Len != n {
				t.Errorf("first message: %v, %v", m, err)
			}
		})
	}
}

func TestHandleMessages(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	got := make(chan string, 100)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	err := b.Worker().HandleAM(serving, 3, func(ctx context.Context, m *AM) {
		d, err := m.Bytes(ctx, 100)
		got <- fmt.Sprintf("%s %s %v", m.Header, d, err)
		if m.ReplyTo != nil {
			_ = m.ReplyTo.SendAM(ctx, 4, m.Header, AMOptions{}) // a handler may use the worker
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Worker().OpenAM(4); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := a.SendAM(ctx, 3, fmt.Append(nil, i), AMOptions{Reply: true}, Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if s := <-got; s != fmt.Sprintf("%d x <nil>", i) {
			t.Errorf("message %d: %s", i, s)
		}
		m, err := a.Worker().RecvAM(ctx, 4)
		if err != nil || string(m.Header) != fmt.Sprint(i) {
			t.Fatalf("reply %d: %v", i, err)
		}
	}
}

// A receive whose context ends in the moment a message arrives either gets the message
// or leaves it for the next.
// TestSmallMessages sends messages of all lengths around those at which header and data share an allocation, and at
// which events are used again. The limit of queued bytes is far below their sum: what was received no longer counts.
func TestSmallMessages(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{MaxQueuedMessages: 64 << 10})
	if err := b.w.OpenAM(1); err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		for _, h := range []int{0, 1, 8, 64, 65, 128} {
			for _, n := range []int{0, 1, 8, 15, 16, 17, 63, 64, 65, 192, 256, 257, 1024, 1025, 2049} {
				header, data := bytes.Repeat([]byte{byte(h + round)}, h), bytes.Repeat([]byte{byte(n - round)}, n)
				if err := a.SendAM(ctx, 1, header, AMOptions{}, Bytes(data)); err != nil {
					t.Fatal(err)
				}
				m, err := b.w.RecvAM(ctx, 1)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(m.Header, header) || m.Len != n {
					t.Fatalf("header of %d bytes, %d bytes of data, want %d and %d", len(m.Header), m.Len, h, n)
				}
				_ = append(m.Header, 0xff) // must not reach the data
				got, err := m.Bytes(ctx, n)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("header of %d bytes, data of %d: %v, or other bytes", h, n, err)
				}
				if _, err := m.Bytes(ctx, n); err == nil {
					t.Fatal("a message was received twice")
				}
			}
		}
	}
}

// TestInboxOrder puts and takes messages in changing numbers: they come in the order of arrival.
func TestInboxOrder(t *testing.T) {
	w := &Worker{cfg: WorkerConfig{MaxQueuedMessages: 1 << 20}}
	w.ams.init(w)
	b := &inbox{}
	put, taken := 0, 0
	for round := range 400 {
		for range round * 37 % 101 {
			b.put(w, &AM{Len: put})
			put++
		}
		for range round * 53 % 97 {
			if taken == put {
				break
			}
			m, err := w.ams.recv(t.Context(), b)
			if err != nil || m.Len != taken {
				t.Fatalf("message %d, %v, want %d", m.Len, err, taken)
			}
			taken++
		}
	}
	for ; taken < put; taken++ {
		if m, err := w.ams.recv(t.Context(), b); err != nil || m.Len != taken {
			t.Fatalf("message %d, %v, want %d", m.Len, err, taken)
		}
	}
	if b.head != 0 || len(b.queue) != 0 {
		t.Errorf("%d messages are left, the first at %d", len(b.queue), b.head)
	}
}

// TestMessageAllocates: a small message costs one allocation, that of the message itself.
func TestMessageAllocates(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{Progress: Polling})
	sent, got := Bytes(make([]byte, 8)), Bytes(make([]byte, 8))
	round := func() {
		if err := a.SendAM(ctx, 1, nil, AMOptions{}, sent); err != nil {
			t.Fatal(err)
		}
		m, err := b.w.RecvAM(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Recv(ctx, got); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.w.OpenAM(1); err != nil {
		t.Fatal(err)
	}
	round()
	if n := testing.AllocsPerRun(200, round); n > 1 && !underRace {
		t.Errorf("%v allocations per message, want 1", n)
	}
}

func TestReceiveMessageCancelRace(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	if err := b.Worker().OpenAM(1); err != nil {
		t.Fatal(err)
	}
	const rounds = 300
	done := make(chan error, 1)
	go func() {
		for i := range rounds {
			if err := a.SendAM(ctx, 1, []byte{byte(i)}, AMOptions{}); err != nil {
				done <- err
				return
			}
			time.Sleep(50 * time.Microsecond)
		}
		done <- nil
	}()
	gaveUp := 0
	for i := 0; i < rounds; {
		short, cancel := context.WithTimeout(ctx, 60*time.Microsecond)
		m, err := b.Worker().RecvAM(short, 1)
		cancel()
		if err != nil {
			if gaveUp++; !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				t.Fatalf("after %d messages: %v", i, err)
			}
			continue
		}
		if m.Header[0] != byte(i) {
			t.Fatalf("message %d arrived as %d", m.Header[0], i)
		}
		i++
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d receives gave up, none lost a message", gaveUp)
}
