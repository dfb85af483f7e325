package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/collective/transport"
)

// A message of the model: of a rank to another with a tag, the i-th of these.
type modelMessage struct {
	from, to, i int
	tag         uint64
	n           int
}

func (m modelMessage) data() []byte {
	b := bytes.Repeat([]byte{byte(m.from*7 + m.to*3 + m.i + int(m.tag))}, m.n)
	return append(b, byte(m.from), byte(m.to), byte(m.tag), byte(m.i))
}

// TestMessagesModel: whatever the order in which ranks send and receive, each receive gets the next message of its rank
// and tag: short and long ones, that come before and after they are asked for.
func TestMessagesModel(t *testing.T) {
	const n, tags = 3, 3
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			for seed := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, 77))
				sends, recvs := make([][]modelMessage, n), make([][]modelMessage, n)
				count := map[modelMessage]int{}
				for range 60 {
					m := modelMessage{from: rng.IntN(n), to: rng.IntN(n), tag: uint64(rng.IntN(tags))}
					key := m
					m.i, m.n = count[key], []int{0, 30, eagerMax - 4, eagerMax - 3, 40_000}[rng.IntN(5)]
					count[key]++
					sends[m.from] = append(sends[m.from], m)
					recvs[m.to] = append(recvs[m.to], m)
				}
				for r := range recvs { // any order of ranks and tags, but not of the messages of one
					rng.Shuffle(len(recvs[r]), func(i, j int) { recvs[r][i], recvs[r][j] = recvs[r][j], recvs[r][i] })
					next := map[modelMessage]int{}
					bySource := map[modelMessage][]modelMessage{}
					for _, m := range recvs[r] {
						key := modelMessage{from: m.from, to: m.to, tag: m.tag}
						bySource[key] = append(bySource[key], m)
					}
					for key := range bySource {
						slices.SortFunc(bySource[key], func(x, y modelMessage) int { return x.i - y.i })
					}
					for i, m := range recvs[r] {
						key := modelMessage{from: m.from, to: m.to, tag: m.tag}
						recvs[r][i] = bySource[key][next[key]]
						next[key]++
					}
				}
				ctx := testContext(t)
				gs := b.groups(ctx, t, n)
				each(t, n, func(r int) error {
					var open []*Request
					bufs := map[int][]byte{}
					post := func(i int) {
						bufs[i] = make([]byte, recvs[r][i].n+4)
						open = append(open, gs[r].Start(ctx, receiving(recvs[r][i].from, recvs[r][i].tag,
							Memory{Bytes: bufs[i]})))
					}
					early := len(recvs[r]) / 2
					for i := range early {
						post(i)
					}
					var out []*Request
					for _, m := range sends[r] {
						out = append(out, gs[r].Start(ctx, sending(m.to, m.tag, Memory{Bytes: m.data()})))
					}
					for i := early; i < len(recvs[r]); i++ {
						post(i)
					}
					for i, q := range open {
						want := recvs[r][i].data()
						if err := q.Wait(ctx); err != nil || q.Len() != len(want) || !bytes.Equal(bufs[i], want) {
							return fmt.Errorf("message %+v: %d bytes, %w", recvs[r][i], q.Len(), err)
						}
					}
					for _, q := range out {
						if err := q.Wait(ctx); err != nil {
							return err
						}
					}
					return nil
				})
				closeAll(gs)
			}
		})
	}
}

// TestSlots: more long messages at once than there are slots, twice: those of the first time are given back.
func TestSlots(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	each(t, 2, func(r int) error {
		for round := range 2 {
			const n = slots + 20
			if r == 1 {
				buf := make([]byte, eagerMax+1)
				for i := range n {
					if m, err := received(ctx, gs[1], 0, 1, Memory{Bytes: buf}); err != nil || m != len(buf) ||
						buf[0] != byte(i) || buf[1] != byte(round) {
						return fmt.Errorf("message %d: %d bytes %v: %w", i, m, buf[:2], err)
					}
				}
				continue
			}
			sent := make(chan *Request, n)
			go func() { // the last of them wait for a slot before they begin
				defer close(sent)
				for i := range n {
					b := make([]byte, eagerMax+1)
					b[0], b[1] = byte(i), byte(round)
					sent <- gs[0].Start(ctx, sending(1, 1, Memory{Bytes: b}))
				}
			}()
			for q := range sent {
				if err := q.Wait(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// TestNoSlot: a Send that has to wait for a slot ends with its context, with the group and with Close.
func TestNoSlot(t *testing.T) {
	long := Memory{Bytes: make([]byte, eagerMax+1)}
	why := errors.New("no patience")
	for _, how := range []string{"context", "abort", "close"} {
		t.Run(how, func(t *testing.T) {
			ctx := testContext(t)
			gs := backends[0].groups(ctx, t, 2)
			p, err := gs[0].p2p.peer(1)
			if err != nil {
				t.Fatal(err)
			}
			for range slots {
				<-p.free
			}
			impatient, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			result := make(chan error, 1)
			go func() { result <- gs[0].Do(impatient, sending(1, 1, long)) }()
			var want error
			switch how {
			case "context":
				want = why
				cancel(why)
			case "abort":
				want = why
				gs[0].Abort(why)
			case "close":
				want = ErrClosed
				if err := gs[0].Close(); err != nil {
					t.Error(err)
				}
			}
			if err := <-result; !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// TestReceivesOfTheDead: what a rank has sent before it left can still be received, then its receives fail at once;
// those of a closed group, too.
func TestReceivesOfTheDead(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			if err := gs[1].Do(ctx, sending(0, 1, Memory{Bytes: []byte("will")})); err != nil {
				t.Fatal(err)
			}
			waiting := gs[0].Start(ctx, receiving(1, 2, Memory{Bytes: make([]byte, 8)}))
			if err := gs[1].Close(); err != nil {
				t.Fatal(err)
			}
			var gone *RankError
			if err := waiting.Wait(ctx); !errors.As(err, &gone) || gone.Rank != 1 {
				t.Fatalf("waiting receive: %v, want that rank 1 has left", err)
			}
			buf := make([]byte, 8)
			if n, err := received(ctx, gs[0], 1, 1, Memory{Bytes: buf}); err != nil || string(buf[:n]) != "will" {
				t.Errorf("early message: %q, %v", buf[:n], err)
			}
			for range 2 {
				if _, err := received(ctx, gs[0], 1, 1, Memory{Bytes: buf}); !errors.As(err, &gone) || gone.Rank != 1 {
					t.Errorf("receive of a rank that has left: %v, want its name", err)
				}
			}
			other := gs[0].Start(ctx, receiving(2, 1, Memory{Bytes: buf}))
			if err := gs[0].Close(); err != nil {
				t.Fatal(err)
			}
			if err := other.Wait(ctx); !errors.Is(err, ErrClosed) {
				t.Errorf("receive that waited when the group was closed: %v, want %v", err, ErrClosed)
			}
			for _, c := range []Call{receiving(2, 1, Memory{Bytes: buf}), sending(2, 1, Memory{Bytes: buf}),
				sending(2, 1, Memory{Bytes: make([]byte, 2*eagerMax)})} {
				if err := gs[0].Do(ctx, c); !errors.Is(err, ErrClosed) {
					t.Errorf("%v after Close: %v, want %v", c.Code, err, ErrClosed)
				}
			}
			if _, err := gs[0].p2p.peer(2); !errors.Is(err, ErrClosed) {
				t.Errorf("reader of a closed group: %v, want %v", err, ErrClosed)
			}
		})
	}
}

// TestSendRecvErrors: SendRecv has the error of its send, else that of its receive, and waits for both.
func TestSendRecvErrors(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	long, short := make([]byte, 3*eagerMax), make([]byte, 5)
	each(t, 2, func(r int) error {
		var short1, short0 *TruncatedError
		switch r {
		case 0: // its send is too long for rank 1, what it receives is right
			n, err := sendRecv(ctx, gs[0], 1, 1, long, 1, short)
			if !errors.As(err, &short0) || short0.To != 1 || n != 0 {
				return fmt.Errorf("send that is too long: %d, %w", n, err)
			}
		case 1: // its own send is right, what it receives is too long
			n, err := sendRecv(ctx, gs[1], 0, 1, short, 0, make([]byte, 7))
			if !errors.As(err, &short1) || short1.Have != 7 || short1.Want != len(long) || n != 0 {
				return fmt.Errorf("receive that is too long: %d, %w", n, err)
			}
		}
		return gs[r].Do(ctx, barrier())
	})
	want := "collective: rank 0 sent 9 bytes with tag 3, but rank 1 has a buffer of 4; use the same length"
	if got := (&TruncatedError{From: 0, To: 1, Tag: 3, Have: 4, Want: 9}).Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// An invalid send does not wait for a message that is not sent.
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{Code: SendRecv, Kind: Uint8, To: 5, From: 1}, "no rank 5 in a group of 2 ranks"},
		{Call{Code: SendRecv, Kind: Uint8, To: 1, From: -1}, "no rank -1 in a group of 2 ranks"},
		{Call{Code: SendRecv, Kind: Uint8, To: 1, From: 1, Send: Memory{Buffer: onDevice(1<<20, 8)}},
			"collective: Send: " + ErrNoCarrier.Error()},
	} {
		for i, err := range []error{gs[0].Do(ctx, c.call), gs[0].Start(ctx, c.call).Wait(ctx)} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("SendRecv from %d to %d, form %d: %v, want %q", c.call.From, c.call.To, i, err, c.want)
			}
		}
	}
}

// TestNoMessage: what is no envelope ends the group, with the name of its sender.
func TestNoMessage(t *testing.T) {
	good := func(e envelope) []byte { return e.append(nil) }
	for _, c := range []struct {
		name, want string
		b          []byte
	}{
		{"short", "envelope has 3 bytes", []byte{1, 2, 3}},
		{"kind 0", "unknown envelope kind 0", good(envelope{})},
		{"kind 5", "unknown envelope kind 5", good(envelope{kind: 5})},
		{"cut off", "envelope has 1 bytes of data for a message of 2",
			good(envelope{kind: envEager, length: 2, data: []byte{1}})},
		{"question with data", "envelope has 1 bytes", good(envelope{kind: envRequest, length: 1, data: []byte{1}})},
		{"answer with data", "envelope has 2 bytes", good(envelope{kind: envAccept, length: 2, data: []byte{1, 2}})},
		{"too long", "message of 70368744177665 bytes", good(envelope{kind: envRequest, length: maxCount + 1})},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parseEnvelope(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("parsed: %v, want %q", err, c.want)
			}
			ctx := testContext(t)
			gs := backends[0].groups(ctx, t, 2)
			if err := gs[1].hub.t.Send(ctx, 0, gs[1].channel(forEnvelopes), c.b); err != nil {
				t.Fatal(err)
			}
			_, err := received(ctx, gs[0], 1, 9, Memory{Bytes: make([]byte, 1)})
			var bad *RankError
			if !errors.As(err, &bad) || bad.Rank != 1 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("receive: %v, want rank 1's %q", err, c.want)
			}
			if err := gs[0].Do(ctx, barrier()); err == nil {
				t.Error("the group lives on")
			}
		})
	}
}

// TestGivenUpInFlight: a receive whose message is on its way when its context ends cannot be taken back: the group
// fails, and the memory is not written any more when the call returns.
func TestGivenUpInFlight(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	// Rank 1 asks for a long message by hand and never sends it.
	ask := envelope{kind: envRequest, slot: 3, tag: 4, length: 2 * eagerMax}
	impatient, cancel := context.WithCancelCause(ctx)
	why := errors.New("enough")
	q := gs[0].Start(impatient, receiving(1, 4, Memory{Bytes: make([]byte, 2*eagerMax)}))
	if err := gs[1].hub.t.Send(ctx, 0, gs[1].channel(forEnvelopes), ask.append(nil)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, envelopeLen)
	n, err := gs[1].hub.t.Recv(ctx, 0, gs[1].channel(forEnvelopes), answer)
	if e, bad := parseEnvelope(answer[:n]); err != nil || bad != nil || e.kind != envAccept || e.slot != 3 {
		t.Fatalf("answer %+v: %v, %v; want to go ahead in slot 3", e, err, bad)
	}
	cancel(why)
	if err := q.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
	var gone *RankError
	if err := gs[1].Do(ctx, barrier()); !errors.As(err, &gone) || gone.Rank != 0 ||
		!strings.Contains(err.Error(), "canceled: enough") {
		t.Errorf("rank 1: %v, want that rank 0 canceled", err)
	}
}

// TestStrayAnswers checks that unexpected replies are ignored, also many of one slot.
func TestStrayAnswers(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	for range 3 {
		for _, kind := range []byte{envAccept, envReject} {
			e := envelope{kind: kind, slot: 200}
			if err := gs[1].hub.t.Send(ctx, 0, gs[1].channel(forEnvelopes), e.append(nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	each(t, 2, func(r int) error {
		if r == 1 {
			return gs[1].Do(ctx, sending(0, 1, Memory{Bytes: []byte("x")}))
		}
		_, err := received(ctx, gs[0], 1, 1, Memory{Bytes: make([]byte, 1)})
		return err
	})
	if _, err := (transport.Finished{N: 3}).Wait(ctx); err != nil {
		t.Error(err)
	}
}
