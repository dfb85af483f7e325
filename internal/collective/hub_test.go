package collective

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/internal/collective/transport"
)

// lateTransport is one of two ranks. Its receives fail, and Failures tells of nothing.
type lateTransport struct {
	transport.Transport
	failures chan *RankError
	received error
}

func (t *lateTransport) Rank() int                   { return 0 }
func (t *lateTransport) Size() int                   { return 2 }
func (t *lateTransport) Failures() <-chan *RankError { return t.failures }
func (t *lateTransport) Abort(*RankError)            {}

func (t *lateTransport) Recv(context.Context, int, uint64, []byte) (int, error) { return 0, t.received }

func (t *lateTransport) Close() error {
	close(t.failures)
	return nil
}

// TestReceiveNamesRank: a receive that ends before the group has heard of the rank's end names the rank as well.
func TestReceiveNamesRank(t *testing.T) {
	cause := errors.New("cut")
	left := transport.LeftError(1)
	left.Err = cause
	for _, c := range []struct {
		name   string
		err    *RankError
		failed bool // the whole group
	}{
		{"lost", &RankError{Rank: 1, Reason: "connection lost: cut", Err: cause}, true},
		{"left", left, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := &lateTransport{failures: make(chan *RankError), received: c.err}
			h := newHub(transport, []string{"tcp://a:1", "tcp://b:2"})
			g := newGroup(h, Config{}, 0, 0, []int{0, 1})
			_, err := received(t.Context(), g, 1, 7, Memory{Bytes: make([]byte, 1)})
			if err == nil || !strings.Contains(err.Error(), "rank 1 (tcp://b:2): "+c.err.Reason) ||
				!errors.Is(err, cause) {
				t.Errorf("Recv: %v, want rank 1 with its name and the cause", err)
			}
			if failed := h.err() != nil; failed != c.failed {
				t.Errorf("group failed: %t (%v), want %t", failed, h.err(), c.failed)
			}
			g.p2p.close()
			if err := h.release(); err != nil {
				t.Error(err)
			}
		})
	}
}
