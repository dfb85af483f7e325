package ucx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// checkPaired sends a message with a reply endpoint each way: it must name the other
// end of the same lifeline.
func checkPaired(ctx context.Context, a, b *Endpoint, id uint16) error {
	for _, dir := range [][2]*Endpoint{{a, b}, {b, a}} {
		from, to := dir[0], dir[1]
		if err := to.w.OpenAM(id); err != nil {
			return err
		}
		if err := from.SendAM(ctx, id, []byte("who"), AMOptions{Reply: true}); err != nil {
			return err
		}
		m, err := to.w.RecvAM(ctx, id)
		if err != nil {
			return err
		}
		if m.ReplyTo != to {
			return fmt.Errorf("a message of %v is answered through %v, not through %v", from, m.ReplyTo, to)
		}
		m.Release()
	}
	return nil
}

func TestAddressOwner(t *testing.T) {
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	owners := map[uint64]bool{}
	for _, w := range []*Worker{wa, wb} {
		full, err := w.Address()
		if err != nil {
			t.Fatal(err)
		}
		network, err := w.address(true)
		if err != nil {
			t.Fatal(err)
		}
		if full.owner() == 0 || full.owner() != network.owner() {
			t.Errorf("owners %x and %x of one worker's addresses: this UCX packs them differently", full.owner(),
				network.owner())
		}
		owners[full.owner()] = true
	}
	if len(owners) != 2 {
		t.Errorf("two workers share the number %v", owners)
	}
	if n := (WorkerAddress)("short").owner(); n != 0 {
		t.Errorf("owner of a cut-off address: %x", n)
	}
}

// Connections that are made and closed side by side, in both directions, keep to
// themselves: messages that name the sender's endpoint arrive, whatever is closed.
func TestPairingSideBySide(t *testing.T) {
	for _, set := range connSettings[:2] {
		t.Run(set.name, func(t *testing.T) {
			ctx := testContext(t)
			wa, wb := newWorker(t, set.cfg, set.wcfg), newWorker(t, set.cfg, set.wcfg)
			var wg sync.WaitGroup
			for id := range 8 {
				wg.Go(func() {
					from, to := wa, wb
					if id%2 == 1 {
						from, to = wb, wa
					}
					for range 20 {
						a, b := connectPair(t, ctx, from, to)
						if err := checkPaired(ctx, a, b, uint16(id+1)); err != nil {
							t.Error(err)
							return
						}
						_ = a.Close()
						_ = b.Close()
					}
				})
			}
			wg.Wait()
		})
	}
}

// Endpoints that exist on one side only put the count out of step; the next handshake
// puts it right, and does not disturb them.
func TestPairingCatchesUp(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	first, second := connectPair(t, ctx, wa, wb)
	if err := checkPaired(ctx, first, second, 1); err != nil {
		t.Fatal(err)
	}
	for round, w := range []*Worker{wa, wb} {
		other := wb
		if w == wb {
			other = wa
		}
		addr, err := other.Address()
		if err != nil {
			t.Fatal(err)
		}
		var alone []*Endpoint
		for range 3 {
			ep, err := w.Connect(addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			alone = append(alone, ep)
		}
		a, b := connectPair(t, ctx, wa, wb)
		if err := checkPaired(ctx, a, b, 1); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		_ = a.Close()
		_ = b.Close()
		for _, ep := range alone {
			buf := make([]byte, 8)
			r := other.StartRecv(Bytes(buf), 7, FullMask)
			if err := ep.Send(ctx, Bytes([]byte("still ok")), 7); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if err := r.Wait(ctx); err != nil || string(buf) != "still ok" {
				t.Fatalf("round %d: %q, %v", round, buf, err)
			}
		}
	}
	if err := checkPaired(ctx, first, second, 1); err != nil {
		t.Error(err)
	}
}

func TestPairingRefusesWildCounts(t *testing.T) {
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	addr, err := wb.Address()
	if err != nil {
		t.Fatal(err)
	}
	p := wa.peers.pairing(addr.owner())
	if err := p.take(testContext(t)); err != nil {
		t.Fatal(err)
	}
	defer p.give()
	if err := p.catchUp(wa, maxCatchUp+1, addr); err == nil || p.made != 0 {
		t.Errorf("%d endpoints made, %v", p.made, err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := p.take(ctx); err == nil {
		t.Error("took a turn that was taken")
	}
}

// Making 65535 endpoints takes too long here; UCX then says only that a limit was reached.
func TestPairingLimitIsExplained(t *testing.T) {
	p := &pairing{}
	_, err := p.makeOne(func() (*Endpoint, error) { return nil, &OpError{Op: "connect", Err: ErrExceedsLimit} })
	if !errors.Is(err, ErrExceedsLimit) || !strings.Contains(err.Error(), "Config.Features") || p.made != 0 {
		t.Errorf("%v, %d made", err, p.made)
	}
}
