package inproc_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/testkit/commtest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func TestConformance(t *testing.T) {
	commtest.Run(t, commtest.Factory{Address: "inproc://"})
}

func pair(t testing.TB) (a, b comm.Comm) {
	l, err := comm.Listen(t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = comm.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{}); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a, b
}

func TestNothingIsCopied(t *testing.T) {
	a, b := pair(t)
	data := make([]byte, 1000)
	if err := a.Write(t.Context(), &wire.Message{Frames: []wire.Frame{wire.HeapFrame(data)}}); err != nil {
		t.Fatal(err)
	}
	m, err := b.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if &m.Frames[0].Bytes()[0] != &data[0] {
		t.Error("the frame was copied")
	}
}

// What was written before Close reaches the peer, also when the comm is aborted afterwards, as by a second owner.
func TestAbortAfterClose(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(comm.Comm)
		want int // messages that the peer reads
	}{
		"Close":             {func(a comm.Comm) { a.Close() }, 2},
		"Close, then Abort": {func(a comm.Comm) { a.Close(); a.Abort() }, 2},
		"Abort":             {func(a comm.Comm) { a.Abort() }, 0},
	} {
		a, b := pair(t)
		for range 2 {
			m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("x"))}}
			if err := a.Write(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		c.end(a)
		got := 0
		for {
			m, err := b.Read(t.Context())
			if err != nil {
				if !errors.Is(err, comm.ErrClosed) {
					t.Errorf("%s: got %v, want %v", name, err, comm.ErrClosed)
				}
				break
			}
			m.Release()
			got++
		}
		if got != c.want {
			t.Errorf("%s: the peer reads %d messages, want %d", name, got, c.want)
		}
		b.Close()
	}
}

func TestAddresses(t *testing.T) {
	l, err := comm.Listen(t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	parts := strings.Split(strings.TrimPrefix(l.ContactAddr(), "inproc://"), "/")
	if len(parts) != 3 || parts[1] != fmt.Sprint(os.Getpid()) {
		t.Errorf("the address is %s", l.ContactAddr())
	}
	if host, err := comm.AddressHost(l.ContactAddr()); err != nil || host != parts[0] {
		t.Errorf("its host is %q, %v", host, err)
	}
	if local, err := comm.LocalAddressFor(t.Context(), l.ContactAddr()); err != nil || local == l.ContactAddr() ||
		!strings.HasPrefix(local, "inproc://"+parts[0]) {
		t.Errorf("an address for it is %q, %v", local, err)
	}
	if _, err := comm.Listen(t.Context(), l.ContactAddr(), comm.ListenConfig{}); err == nil ||
		!strings.Contains(err.Error(), "already") {
		t.Errorf("two listeners at one address: %v", err)
	}
	var bad *comm.AddressError
	for _, address := range []string{"inproc://1.2.3.4/1/1", "inproc://x", "inproc://" + parts[0] + "/1/1"} {
		if _, err := comm.Dial(t.Context(), address, comm.DialConfig{}); !errors.As(err, &bad) {
			t.Errorf("dial %s: %v", address, err)
		}
	}
}

func TestInvitations(t *testing.T) {
	l, err := comm.Listen(t.Context(), "inproc://", comm.ListenConfig{Admit: func(_ string, c []byte) bool {
		return string(c) == "yes"
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := comm.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{Invitation: []byte("no")}); err == nil {
		t.Error("a wrong invitation was accepted")
	}
	c, err := comm.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{Invitation: []byte("yes")})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func BenchmarkMessage(b *testing.B) {
	x, y := pair(b)
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(make([]byte, 100))}}
	go func() {
		for {
			m, err := y.Read(b.Context())
			if err != nil || y.Write(b.Context(), m) != nil {
				return
			}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		if err := x.Write(b.Context(), m); err != nil {
			b.Fatal(err)
		}
		if _, err := x.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
