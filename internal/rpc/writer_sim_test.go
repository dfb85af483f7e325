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

// started returns a Writer that sends.
func started(c comm.Comm, cfg WriterConfig) *Writer {
	w := NewWriter(c, cfg)
	w.Start()
	return w
}

// TestWriterBatches: the first message after a pause goes at once, the others together.
func TestWriterBatches(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := started(a, WriterConfig{Interval: 10 * time.Millisecond})
		got := make(chan [][]int64)
		go func() { got <- lists(t.Context(), b) }()
		send := func(n int) {
			if err := s.SendValue(numbered(n)); err != nil {
				t.Error(err)
			}
		}
		send(0)
		synctest.Wait()
		send(1)
		send(2)
		time.Sleep(5 * time.Millisecond)
		send(3)
		time.Sleep(time.Second)
		send(4)
		synctest.Wait()
		send(5)
		if err := s.Shutdown(t.Context()); err != nil { // does not wait for the interval
			t.Error(err)
		}
		want := [][]int64{{0}, {1, 2, 3}, {4}, {5}}
		if lists := <-got; fmt.Sprint(lists) != fmt.Sprint(want) {
			t.Errorf("lists %v, want %v", lists, want)
		}
		send(6) // is dropped
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("second time: %v", err)
		}
	})
}

// TestWriterBadMessage: what cannot be encoded fails alone.
func TestWriterBadMessage(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := started(a, WriterConfig{})
		got := make(chan [][]int64)
		go func() { got <- lists(t.Context(), b) }()
		if err := s.SendValue(make(chan int)); err == nil {
			t.Error("a channel was taken")
		}
		if err := s.SendValue(numbered(1)); err != nil {
			t.Error(err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if lists := <-got; fmt.Sprint(lists) != "[[1]]" {
			t.Errorf("lists %v", lists)
		}
	})
}

// TestWriterFrames: messages with frames of their own keep them when they go together.
func TestWriterFrames(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := started(a, WriterConfig{})
		for i := range 4 {
			m := msgpack.Map{{Key: "op", Value: "put"}, {Key: "data",
				Value: wire.Serialize{Value: []byte(strings.Repeat(fmt.Sprint(i), 10))}}}
			if i == 2 {
				m = numbered(2) // one without, in between
			}
			if err := s.SendValue(m); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _ = s.Shutdown(t.Context()) }()
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

// TestWriterLimit: a peer that does not read is dropped when more than the limit waits for it.
func TestWriterLimit(t *testing.T) {
	streamPair(t, sim.Config{Window: 100}, func(t *testing.T, n *sim.Network, a, b comm.Comm) {
		n.Stall("b")
		big := msgpack.Map{{Key: "op", Value: "n"}, {Key: "n", Value: 0},
			{Key: "pad", Value: strings.Repeat("x", 1000)}}
		s := started(a, WriterConfig{Limit: 3500})
		sent := 0
		var err error
		for err == nil && sent < 100 {
			if err = s.SendValue(big); err == nil {
				sent++
			}
			synctest.Wait()
		}
		if !errors.Is(err, ErrSlowPeer) || sent != 4 { // one is being written
			t.Errorf("%d sends, then %v", sent, err)
		}
		<-s.Done()
		if a.Err() == nil {
			t.Error("the comm is open")
		}
	})
}

// TestWriterDeadline: Shutdown does not wait longer than its context for a peer that does not read.
func TestWriterDeadline(t *testing.T) {
	streamPair(t, sim.Config{Window: 100}, func(t *testing.T, n *sim.Network, a, b comm.Comm) {
		n.Stall("b")
		s := started(a, WriterConfig{})
		for i := range 10 {
			m := numbered(i)
			m.Set("pad", strings.Repeat("x", 200))
			if err := s.SendValue(m); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if a.Err() == nil {
			t.Error("the comm is open")
		}
	})
}

// TestWriterPeersLastWords: a stream that the peer has ended takes no more, and what the peer said before can still be
// read.
func TestWriterPeersLastWords(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := started(a, WriterConfig{})
		for i := range 3 {
			if err := b.Write(t.Context(), raw(t, numbered(i))); err != nil {
				t.Fatal(err)
			}
		}
		_ = b.Close()
		time.Sleep(time.Second)
		if err := s.SendValue(numbered(0)); err != nil {
			t.Errorf("what is sent to a peer that has gone is dropped: %v", err)
		}
		for i := range 3 {
			m, err := a.Read(t.Context())
			if err != nil {
				t.Fatalf("message %d was lost: %v", i, err)
			}
			m.Release()
		}
		<-s.Done()
	})
}

// TestWriterNeverLosesOrReorders sends from several goroutines under random faults. What the peer gets is, for each
// sender, a beginning of what was sent, in order, without a gap. When no connection was broken, the peer has got all of
// it.
func TestWriterNeverLosesOrReorders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		senders := rapid.IntRange(1, 4).Draw(rt, "senders")
		each := rapid.IntRange(1, 60).Draw(rt, "each")
		ms := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 5).Draw(rt, name)) * time.Millisecond
		}
		cfg := WriterConfig{Interval: ms("interval"), Linger: ms("linger")}
		patient := rapid.IntRange(0, 3).Draw(rt, "patient") // each so many messages one that is not urgent
		faults := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 6).Draw(rt, "faults")
		gaps := rapid.SliceOfN(rapid.IntRange(0, 5000), 6, 6).Draw(rt, "gaps")
		synctest.Test(t, func(*testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			n := sim.New(sim.Config{Seed: seed, Window: 500,
				Link: sim.Link{Latency: time.Millisecond, Jitter: time.Millisecond, Bandwidth: 1 << 20}})
			a, b := connectPair(ctx, n)
			s := started(a, cfg)
			var owner sync.Mutex
			got := make(chan [][]int64, 1)
			go func() { got <- lists(ctx, b) }()
			var wg sync.WaitGroup
			accepted := make([]int, senders)
			for w := range senders {
				wg.Go(func() {
					for i := range each {
						owner.Lock()
						m := raw(t, numbered(w*1000+i))
						s.Add(m.Body(), nil)
						var err error
						if patient > 0 && i%patient == 0 {
							err = s.FlushLater()
						} else {
							err = s.Flush(0)
						}
						owner.Unlock()
						if err != nil {
							rt.Errorf("flush: %v", err)
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
			err := s.Shutdown(ctx)
			received := slices.Concat(<-got...)
			b.Abort()
			total := 0
			for _, k := range accepted {
				total += k
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
