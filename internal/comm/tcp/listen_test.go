package tcp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/testkit/leak"
)

// hosts and ports that listeners bind and announce.
func TestListenAddresses(t *testing.T) {
	leak.Check(t)
	own := commaddr.ConcreteHost("0.0.0.0")
	lo := loopback(t)
	for _, c := range []struct{ address, iface, listen, contact string }{
		{"tcp://127.0.0.1:0", "", "127.0.0.1", "127.0.0.1"},
		{"tcp://127.0.0.1", "", "127.0.0.1", "127.0.0.1"},
		{"127.0.0.1", "", "127.0.0.1", "127.0.0.1"},
		{"tcp://[::1]:0", "", "[::1]", "[::1]"},
		{"tcp://:0", "", "0.0.0.0", own},
		{"tcp://0.0.0.0", "", "0.0.0.0", own},
		{"tcp://", lo, "127.0.0.1", "127.0.0.1"},
		{"tcp://127.0.0.1", lo, "127.0.0.1", "127.0.0.1"},
		{"tcp://0.0.0.0", lo, "0.0.0.0", "127.0.0.1"},
	} {
		l, err := comm.Listen(t.Context(), c.address, comm.ListenConfig{Interface: c.iface})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		_, port, err := comm.AddressHostPort(l.ContactAddr())
		if err != nil || l.ListenAddr() != fmt.Sprintf("tcp://%s:%d", c.listen, port) ||
			l.ContactAddr() != fmt.Sprintf("tcp://%s:%d", c.contact, port) {
			t.Errorf("%+v: listens on %s, announces %s", c, l.ListenAddr(), l.ContactAddr())
		}
		l.Close()
	}
	for _, c := range []struct{ address, iface, want string }{
		{"tcp://10.255.255.1:0", "", "cannot assign"},
		{"tcp://127.0.0.2", lo, "not both"},
		{"tcp://", "no-such-interface", "no-such-interface"},
		{"tcp://h:x", "", "not a number"},
		{"tcp://127.0.0.1:9:8", "", "range"},
	} {
		if _, err := comm.Listen(t.Context(), c.address, comm.ListenConfig{Interface: c.iface}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func loopback(t *testing.T) string {
	t.Helper()
	ifs, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifs {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	t.Fatal("there is no loopback interface")
	return ""
}

// Of a range the first free port is taken; when none is, the error names the range.
func TestPortRange(t *testing.T) {
	leak.Check(t)
	var first int
	var taken []comm.Listener
	for attempt := 0; first == 0; attempt++ { // three ports in a row that are free
		l, err := comm.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := comm.AddressHostPort(l.ContactAddr())
		l.Close()
		taken = nil
		for range 2 {
			if l, err = comm.Listen(t.Context(), fmt.Sprintf("tcp://127.0.0.1:%d:%d", port, port+1),
				comm.ListenConfig{}); err == nil {
				taken = append(taken, l)
			}
		}
		if len(taken) == 2 {
			first = port
		} else if attempt == 50 {
			t.Fatal("there are no two free ports in a row")
		} else {
			for _, l := range taken {
				l.Close()
			}
		}
	}
	for i, l := range taken {
		if want := fmt.Sprintf("tcp://127.0.0.1:%d", first+i); l.ContactAddr() != want {
			t.Errorf("listener %d is at %s, want %s", i, l.ContactAddr(), want)
		}
	}
	_, err := comm.Listen(t.Context(), fmt.Sprintf("tcp://127.0.0.1:%d:%d", first, first+1), comm.ListenConfig{})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(),
		fmt.Sprintf("no free port in %d:%d", first, first+1)) {
		t.Errorf("a range that is taken: %v", err)
	}
	for _, l := range taken {
		l.Close()
	}
}

func TestDialAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"tcp://127.0.0.1": "port number is missing", "tcp://:5": "a host", "tcp://127.0.0.1:0": "other than 0",
		"tcp://::1:5": "brackets",
	} {
		start := time.Now()
		_, err := comm.Dial(t.Context(), address, comm.DialConfig{})
		var timeout *comm.ConnectError
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &timeout) {
			t.Errorf("%s: %v after %v", address, err, time.Since(start))
		}
	}
	// A host's name is dialed by it, and the comm says its address.
	l, err := comm.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := comm.Dial(t.Context(), strings.Replace(l.ContactAddr(), "127.0.0.1", "localhost", 1), comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.PeerAddr() != l.ContactAddr() {
		t.Errorf("the peer is at %s", c.PeerAddr())
	}
}

func TestInvitations(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{Admit: func(_ string, c []byte) bool {
		return string(c) == "yes"
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, invitation := range []string{"", "no", "yes"} {
		c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{Invitation: []byte(invitation)})
		if err != nil {
			t.Fatalf("%q: %v", invitation, err)
		}
		if invitation != "yes" { // the refusal comes as an end
			if _, err := c.Read(ctx); !errors.Is(err, comm.ErrClosed) {
				t.Errorf("%q: %v", invitation, err)
			}
		} else if b, err := l.Accept(ctx); err != nil || b.PeerAddr() != c.LocalAddr() {
			t.Errorf("%v, %v", b, err)
		} else {
			b.Close()
		}
		c.Close()
	}
}

// Who is refused, and why, can be known.
func TestRefused(t *testing.T) {
	type refusal struct {
		peer string
		err  error
	}
	refused := make(chan refusal, 10)
	cfg := comm.ListenConfig{
		Refused: func(peer string, err error) { refused <- refusal{peer, err} },
		Admit:   func(_ string, c []byte) bool { return false },
		Limits:  comm.Limits{HandshakeTime: 100 * time.Millisecond},
	}
	l, err := comm.Listen(t.Context(), "tcp://127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for text, want := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n": "the limit is", string(framed([]byte("\x80"))): "pickle-protocol",
		string(pythonHello()): "invitation", "": "deadline",
	} {
		nc, err := net.Dial("tcp", strings.TrimPrefix(l.ContactAddr(), "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		r := <-refused
		if r.peer != "tcp://"+nc.LocalAddr().String() || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%.10q: %s: %v", text, r.peer, r.err)
		}
		nc.Close()
	}
}
