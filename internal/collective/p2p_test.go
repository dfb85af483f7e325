package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestSendRecv(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			sizes := []int{0, 1, eagerMax, eagerMax + 1, 200_000}
			each(t, 3, func(r int) error {
				next, prev := (r+1)%3, (r+2)%3
				for _, n := range sizes {
					send, recv := bytes.Repeat([]byte{byte(r + 1)}, n), make([]byte, n+1)
					got, err := sendRecv(ctx, gs[r], next, 1<<63|uint64(n), send, prev, recv)
					if err != nil {
						return err
					}
					if got != n || !bytes.Equal(recv[:n], bytes.Repeat([]byte{byte(prev + 1)}, n)) {
						return fmt.Errorf("%d bytes: got %d", n, got)
					}
				}
				return nil
			})
		})
	}
}

// TestTagsMatchInFull: tags that differ in any one bit do not meet, and one tag keeps its order.
func TestTagsMatchInFull(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 2)
			each(t, 2, func(r int) error {
				if r == 0 {
					var sends []*Request
					for round := range 2 {
						for bit := range 64 {
							b := bytes.Repeat([]byte{byte(bit), byte(round)}, 1+bit%2*eagerMax)
							sends = append(sends, gs[0].Start(ctx, sending(1, 1<<bit, Memory{Bytes: b})))
						}
					}
					for _, s := range sends {
						if err := s.Wait(ctx); err != nil {
							return err
						}
					}
					return nil
				}
				buf := make([]byte, 4*eagerMax)
				for bit := 63; bit >= 0; bit-- { // not in the order of sending
					for round := range 2 {
						n, err := received(ctx, gs[1], 0, 1<<bit, Memory{Bytes: buf})
						if err != nil {
							return err
						}
						if n != 2+bit%2*2*eagerMax || buf[0] != byte(bit) || buf[1] != byte(round) {
							return fmt.Errorf("tag 1<<%d, message %d: %d bytes %v", bit, round, n, buf[:2])
						}
					}
				}
				return nil
			})
		})
	}
}

func TestTruncatedMessage(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 2)
			errs := results(2, func(r int) error {
				if r == 0 {
					return gs[0].Do(ctx, sending(1, 5, Memory{Bytes: make([]byte, 100_000)}))
				}
				_, err := received(ctx, gs[1], 0, 5, Memory{Bytes: make([]byte, 99)})
				return err
			})
			for r, err := range errs {
				var short *TruncatedError
				if !errors.As(err, &short) || *short != (TruncatedError{From: 0, To: 1, Tag: 5, Have: 99,
					Want: 100_000}) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			each(t, 2, func(r int) error { return gs[r].Do(ctx, barrier()) })
		})
	}
}

func TestSendToSelf(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 2)
			for _, n := range []int{3, 100_000} {
				send, recv := bytes.Repeat([]byte{9}, n), make([]byte, n)
				if got, err := sendRecv(ctx, gs[0], 0, 1, send, 0, recv); err != nil || got != n ||
					!bytes.Equal(send, recv) {
					t.Errorf("%d bytes: %d, %v", n, got, err)
				}
			}
		})
	}
}

func TestReceiveThatIsGivenUp(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 2)
			canceled, cancel := context.WithCancel(ctx)
			req := gs[0].Start(canceled, receiving(1, 1, Memory{Bytes: make([]byte, 8)}))
			cancel()
			if err := req.Wait(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want the context's error", err)
			}
			each(t, 2, func(r int) error { // the group lives on, and the message goes to the next
				if r == 1 {
					return gs[1].Do(ctx, sending(0, 1, Memory{Bytes: []byte("x")}))
				}
				buf := make([]byte, 8)
				n, err := received(ctx, gs[0], 1, 1, Memory{Bytes: buf})
				if err == nil && string(buf[:n]) != "x" {
					err = fmt.Errorf("got %q", buf[:n])
				}
				return err
			})
			if err := gs[0].Do(ctx, sending(2, 1, Memory{Bytes: nil})); err == nil {
				t.Error("rank 2 does not exist")
			}
			if _, err := received(ctx, gs[0], -1, 1, Memory{Bytes: nil}); err == nil {
				t.Error("rank -1 does not exist")
			}
		})
	}
}

// TestDeathDuringSend checks that waiting for the reply or a message of a lost rank fails.
func TestDeathDuringSend(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			send := gs[0].Start(ctx, sending(2, 1, Memory{Bytes: make([]byte, 100_000)}))
			recv := gs[1].Start(ctx, receiving(2, 1, Memory{Bytes: make([]byte, 8)}))
			kill(gs[2])
			for i, r := range []*Request{send, recv} {
				var gone *RankError
				if err := r.Wait(ctx); !errors.As(err, &gone) || gone.Rank != 2 {
					t.Errorf("request %d: %v, want rank 2's name", i, err)
				}
			}
		})
	}
}
