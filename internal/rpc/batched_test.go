package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/sim"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"pgregory.net/rapid"
)

// streamPair connects two comms in virtual time.
func streamPair(t *testing.T, cfg sim.Config, f func(t *testing.T, n *sim.Network, a, b comm.Comm)) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.New(cfg)
		a, b := connectPair(t.Context(), n)
		f(t, n, a, b)
		a.Abort()
		b.Abort()
	})
}

func connectPair(ctx context.Context, n *sim.Network) (a, b comm.Comm) {
	l, err := n.Host("b").Listen(ctx, "sim://b:1", comm.ListenConfig{})
	if err != nil {
		panic(err)
	}
	defer l.Close()
	if a, err = n.Host("a").Dial(ctx, l.ContactAddr(), comm.DialConfig{}); err != nil {
		panic(err)
	}
	if b, err = l.Accept(ctx); err != nil {
		panic(err)
	}
	return a, b
}

// lists reads messages until the end and returns the numbers "n" of each list.
func lists(ctx context.Context, c comm.Comm) (out [][]int64) {
	for {
		m, err := c.Read(ctx)
		if err != nil {
			return out
		}
		v, err := wire.Decode(m, wire.DecodeOptions{})
		if err != nil {
			panic(err)
		}
		var batch []int64
		for _, x := range v.([]any) {
			n, _ := x.(msgpack.Map).Get("n")
			batch = append(batch, n.(int64))
		}
		out = append(out, batch)
		m.Release()
	}
}

func numbered(n int) msgpack.Map {
	return msgpack.Map{{Key: "op", Value: "n"}, {Key: "n", Value: n}}
}

// TestBatching: the first message after a pause goes at once, the others together.
func TestBatching(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := NewBatched(a, BatchedConfig{Interval: 10 * time.Millisecond})
		got := make(chan [][]int64)
		go func() { got <- lists(t.Context(), b) }()
		send := func(n int) {
			if err := s.Send(t.Context(), numbered(n)); err != nil {
				t.Error(err)
			}
		}
		send(0)
		synctest.Wait()
		send(1)
		send(2)
		time.Sleep(5 * time.Millisecond)
		send(3)
		if st := s.Stats(); st.Batches != 1 || st.Sent != 1 || st.Waiting != 3 || st.Messages != 4 {
			t.Errorf("within the interval: %+v", st)
		}
		time.Sleep(time.Second)
		send(4)
		synctest.Wait()
		send(5)
		if err := s.Close(t.Context()); err != nil { // does not wait for the interval
			t.Error(err)
		}
		want := [][]int64{{0}, {1, 2, 3}, {4}, {5}}
		if lists := <-got; fmt.Sprint(lists) != fmt.Sprint(want) {
			t.Errorf("lists %v, want %v", lists, want)
		}
		if err := s.Send(t.Context(), numbered(6)); !errors.Is(err, ErrClosed) && !errors.Is(err, comm.ErrClosed) {
			t.Errorf("send after close: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
		if st := s.Stats(); st.Sent != 6 || st.Batches != 4 || st.Bytes == 0 {
			t.Errorf("in the end: %+v", st)
		}
	})
}

// TestBadMessageFailsAlone: what cannot be encoded fails its own Send.
func TestBadMessageFailsAlone(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := NewBatched(a, BatchedConfig{})
		got := make(chan [][]int64)
		go func() { got <- lists(t.Context(), b) }()
		for _, bad := range []any{make(chan int), msgpack.Raw{0xc1}, msgpack.Raw{0x92, 1}, msgpack.Raw{1, 2}} {
			if err := s.Send(t.Context(), numbered(0), bad); err == nil {
				t.Errorf("%v was taken", bad)
			}
		}
		if err := s.Send(t.Context(), numbered(1)); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if lists := <-got; fmt.Sprint(lists) != "[[1]]" {
			t.Errorf("lists %v", lists)
		}
	})
}

// TestFramesInBatches: messages with frames of their own keep them when they go together.
func TestFramesInBatches(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := NewBatched(a, BatchedConfig{})
		for i := range 4 {
			m := msgpack.Map{{Key: "op", Value: "put"}, {Key: "data", Value: wire.Serialize{Value: []byte(strings.Repeat(fmt.Sprint(i), 10))}}}
			if i == 2 {
				m = numbered(2) // one without, in between
			}
			if err := s.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		go s.Close(t.Context())
		var got []string
		err := ServeStream(t.Context(), b, StreamConfig{Handlers: map[string]StreamHandler{
			"put": func(_ context.Context, b *Body) error {
				var in struct{ Data []byte }
				err := b.Args(&in)
				got = append(got, string(in.Data))
				return err
			},
			"n": func(context.Context, *Body) error { got = append(got, "n"); return nil },
		}})
		if err != nil {
			t.Error(err)
		}
		if want := "[0000000000 1111111111 n 3333333333]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

func TestQueueBounds(t *testing.T) {
	streamPair(t, sim.Config{Window: 100}, func(t *testing.T, n *sim.Network, a, b comm.Comm) {
		n.Stall("b")
		big := msgpack.Map{{Key: "op", Value: "n"}, {Key: "n", Value: 0}, {Key: "pad", Value: strings.Repeat("x", 1000)}}
		s := NewBatched(a, BatchedConfig{Interval: -1, Queue: 3, Fail: true})
		sent := 0
		var err error
		for err == nil && sent < 100 {
			if err = s.Send(t.Context(), big); err == nil {
				sent++
			}
			synctest.Wait()
		}
		if !errors.Is(err, ErrFull) || sent != 4 { // one is being written
			t.Errorf("%d sends, then %v", sent, err)
		}
		if left := s.Abort(); left == nil || len(left.InDoubt) != 1 || len(left.Unsent) != 3 {
			t.Errorf("left over: %v", left)
		}
	})
	streamPair(t, sim.Config{Window: 100}, func(t *testing.T, n *sim.Network, a, b comm.Comm) {
		n.Stall("b")
		s := NewBatched(a, BatchedConfig{Interval: -1, Queue: 3})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if err := s.Send(t.Context(), numbered(i)); err != nil {
					t.Error(err)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		synctest.Wait()
		if err := s.Send(ctx, numbered(50)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a send that waits: %v", err)
		}
		n.Resume("b")
		got := make(chan [][]int64)
		go func() { got <- lists(t.Context(), b) }()
		wg.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		all := slices.Concat(<-got...)
		slices.Sort(all)
		if len(all) != 50 || all[0] != 0 || all[49] != 49 {
			t.Errorf("got %v", all)
		}
	})
}

// TestCloseDeadline: Close hands back what it could not send.
func TestCloseDeadline(t *testing.T) {
	streamPair(t, sim.Config{Window: 100}, func(t *testing.T, n *sim.Network, a, b comm.Comm) {
		n.Stall("b")
		s := NewBatched(a, BatchedConfig{Interval: -1, Batch: 1})
		for i := range 10 {
			m := numbered(i)
			m.Set("pad", strings.Repeat("x", 200))
			if err := s.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Close(ctx)
		var left *UnsentError
		if !errors.As(err, &left) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("close: %v", err)
		}
		if len(left.InDoubt) != 1 || len(left.Unsent) != 9 {
			t.Errorf("%d in doubt, %d unsent", len(left.InDoubt), len(left.Unsent))
		}
		if v, err := msgpack.Decode(left.Unsent[8].(msgpack.Raw)); err != nil || v.(msgpack.Map)[1].Value != int64(9) {
			t.Errorf("the last one is %v, %v", v, err)
		}
		if s.Err() == nil || s.Comm().Err() == nil {
			t.Error("the stream lives on")
		}
	})
}

// TestPeersLastWords: a stream that the peer has ended fails, and what the peer said before
// can still be read.
func TestPeersLastWords(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := NewBatched(a, BatchedConfig{})
		for i := range 3 {
			if err := b.Write(t.Context(), raw(t, numbered(i))); err != nil {
				t.Fatal(err)
			}
		}
		_ = b.Close()
		time.Sleep(time.Second)
		if err := s.Send(t.Context(), numbered(0)); err == nil {
			// Written before the end was noticed; the next one is not.
			time.Sleep(time.Second)
			err = s.Send(t.Context(), numbered(1))
			if !errors.Is(err, comm.ErrClosed) {
				t.Errorf("send to a peer that has gone: %v", err)
			}
		}
		for i := range 3 {
			m, err := a.Read(t.Context())
			if err != nil {
				t.Fatalf("message %d was lost: %v", i, err)
			}
			m.Release()
		}
		if err := s.Close(t.Context()); err != nil && !errors.As(err, new(*UnsentError)) {
			t.Error(err)
		}
		if a.Err() == nil {
			t.Error("the comm is open")
		}
	})
}

// TestBatchedNeverLosesOrReorders sends from several goroutines under random faults. What
// the peer gets is, for each sender, a beginning of what was sent, in order, without a
// gap; what was written, what is in doubt and what is handed back are together everything.
// When no connection was broken, the peer has got all of it.
func TestBatchedNeverLosesOrReorders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		senders := rapid.IntRange(1, 4).Draw(rt, "senders")
		each := rapid.IntRange(1, 60).Draw(rt, "each")
		interval := time.Duration(rapid.IntRange(-1, 5).Draw(rt, "interval")) * time.Millisecond
		cfg := BatchedConfig{Interval: interval, Queue: rapid.IntRange(1, 50).Draw(rt, "queue"), Batch: rapid.IntRange(1, 20).Draw(rt, "batch")}
		faults := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 6).Draw(rt, "faults")
		gaps := rapid.SliceOfN(rapid.IntRange(0, 5000), 6, 6).Draw(rt, "gaps")
		synctest.Test(t, func(*testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			n := sim.New(sim.Config{Seed: seed, Window: 500, Link: sim.Link{Latency: time.Millisecond, Jitter: time.Millisecond, Bandwidth: 1 << 20}})
			a, b := connectPair(ctx, n)
			s := NewBatched(a, cfg)
			got := make(chan [][]int64, 1)
			go func() { got <- lists(ctx, b) }()
			var wg sync.WaitGroup
			accepted := make([]int, senders)
			for w := range senders {
				wg.Go(func() {
					for i := range each {
						if err := s.Send(ctx, numbered(w*1000+i)); err != nil {
							return
						}
						accepted[w]++
						time.Sleep(time.Duration(seed>>(i%60)%4) * time.Millisecond)
					}
				})
			}
			broken := false
			for i, f := range faults {
				time.Sleep(time.Duration(gaps[i]) * time.Microsecond)
				switch f {
				case 0:
					n.Partition("a", "b")
					time.Sleep(3 * time.Millisecond)
					n.Heal("a", "b")
				case 1:
					n.Stall("b")
					time.Sleep(5 * time.Millisecond)
					n.Resume("b")
				case 2:
					n.SetLink("a", "b", sim.Link{Latency: 5 * time.Millisecond, Bandwidth: 10 << 10})
				case 3:
					n.PartitionOneWay("b", "a")
					time.Sleep(2 * time.Millisecond)
					n.HealAll()
				case 4:
					n.DropAfter("a", "b", int64(gaps[i]))
					broken = true
				case 5:
					n.Drop("a", "b")
					broken = true
				}
			}
			wg.Wait()
			err := s.Close(ctx)
			received := slices.Concat(<-got...)
			b.Abort()

			var left *UnsentError
			lost := 0
			if errors.As(err, &left) {
				lost = len(left.InDoubt) + len(left.Unsent)
			} else if err != nil {
				rt.Errorf("close: %v", err)
			}
			total := 0
			for _, k := range accepted {
				total += k
			}
			st := s.Stats()
			if int(st.Messages) != total || int(st.Sent)+lost != total {
				rt.Errorf("%d accepted, %d sent, %d handed back: %+v", total, st.Sent, lost, st)
			}
			next := make([]int64, senders)
			for _, v := range received {
				w := v / 1000
				if v%1000 != next[w] {
					rt.Errorf("sender %d: got message %d, want %d", w, v%1000, next[w])
				}
				next[w] = v%1000 + 1
			}
			if !broken && (len(received) != total || total != senders*each || err != nil) {
				rt.Errorf("no connection broke: %d of %d arrived, %v", len(received), senders*each, err)
			}
			if rt.Failed() {
				rt.Log("\n" + n.Trace())
			}
		})
	})
}
