package peernet

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/task"
)

func refuse(context.Context, []byte) (func(context.Context, comm.Comm), error) {
	return nil, errors.New("full")
}

// The acceptor of a kind is found, once, until it stops or the worker ends. (Package clique's tests open channels.)
func TestChannels(t *testing.T) {
	p := new(Peers)
	h := task.Host{Peers: p}
	if _, err := p.Acceptor("a"); !errors.Is(err, ErrNoChannels) {
		t.Errorf("a kind that is not served: got %v, want %v", err, ErrNoChannels)
	}
	stop, err := p.Serve("a", refuse)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := p.Acceptor("a"); err != nil || f == nil {
		t.Errorf("a kind that is served: got %v, want its acceptor", err)
	}
	if _, err := p.Serve("a", refuse); err == nil || !strings.Contains(err.Error(), "already served") {
		t.Errorf("a kind twice: got %v, want an error", err)
	}
	stop()
	if _, err := p.Acceptor("a"); err == nil {
		t.Error("a kind that was stopped: got its acceptor, want an error")
	}
	if _, err := p.Serve("a", refuse); err != nil {
		t.Errorf("a kind that is free again: %v", err)
	}
	if err := errors.Join(h.Close(), h.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acceptor("a"); !errors.Is(err, ErrNoChannels) {
		t.Errorf("after the end: got %v, want %v", err, ErrNoChannels)
	}
	if _, err := p.Serve("b", refuse); !errors.Is(err, task.ErrHostClosed) {
		t.Errorf("serving after the end: got %v, want %v", err, task.ErrHostClosed)
	}
}

func TestLongHello(t *testing.T) {
	p := new(Peers)
	_, err := p.Open(t.Context(), "tcp://127.0.0.1:1", "a", make([]byte, MaxHello+1))
	if err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("a hello that is too long: got %v, want an error", err)
	}
}

type others struct{}

func (others) Close() error { return nil }

func TestOf(t *testing.T) {
	want := new(Peers)
	if p, err := Of(&task.Host{Peers: want}); p != want || err != nil {
		t.Errorf("got %p, %v; want %p", p, err, want)
	}
	for _, h := range []*task.Host{{}, {Peers: (*Peers)(nil)}, {Peers: others{}}} {
		if p, err := Of(h); p != nil || !errors.Is(err, ErrNoPeers) {
			t.Errorf("%T: got %v, %v; want %v", h.Peers, p, err, ErrNoPeers)
		}
	}
}
