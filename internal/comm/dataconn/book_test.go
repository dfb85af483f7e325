package dataconn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/dataconn"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// server is a peer with a data connection that admits each invitation once.
type server struct {
	address string
	mu      sync.Mutex
	left    map[string]bool // unused invitations; guarded by mu
	asked   int
	err     error            // of the next question
	reply   []dataconn.Offer // instead of its own data connection
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{left: map[string]bool{}}
	l, err := comm.Default.Listen(t.Context(), "inproc://",
		comm.ListenConfig{Admit: func(_ string, invitation []byte) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			ok := s.left[string(invitation)]
			delete(s.left, string(invitation))
			return ok
		}})
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.ContactAddr()
	r := rpc.NewServer(rpc.Config{Type: "Peer"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done; _ = r.Close() })
	return s
}

func (s *server) ask(context.Context, string) (dataconn.Reply, error) {
	s.asked++
	if s.err != nil {
		return dataconn.Reply{}, s.err
	}
	if s.reply != nil {
		return dataconn.Reply{Offers: s.reply}, nil
	}
	invitation := fmt.Sprint("invitation ", s.asked)
	s.mu.Lock()
	s.left[invitation] = true
	s.mu.Unlock()
	offer := dataconn.Offer{Address: s.address, Invitation: []byte(invitation), Boot: hostid.Boot()}
	return dataconn.Reply{Offers: []dataconn.Offer{offer}}, nil
}

func newBook(t *testing.T, s *server, cfg dataconn.Config) *dataconn.Book {
	cfg.Network, cfg.Ask = comm.Default, s.ask
	b := dataconn.NewBook(cfg)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// A peer is asked once for its data connection, and once more for each further connection.
func TestEachConnectionHasItsInvitation(t *testing.T) {
	s := newServer(t)
	b := newBook(t, s, dataconn.Config{})
	for range 3 {
		if got, err := b.Find(t.Context(), "peer"); got != s.address || err != nil {
			t.Fatalf("found %q, %v", got, err)
		}
	}
	if s.asked != 1 {
		t.Errorf("asked %d times to find it", s.asked)
	}
	one, err := b.Acquire(t.Context(), s.address)
	if err != nil {
		t.Fatal(err)
	}
	if s.asked != 1 {
		t.Error("the invitation that came with the data connection was not used")
	}
	two, err := b.Acquire(t.Context(), s.address)
	if err != nil || s.asked != 2 {
		t.Fatalf("asked %d times for two connections: %v", s.asked, err)
	}
	b.Release(s.address, one)
	b.Release(s.address, two)
	if again, err := b.Acquire(t.Context(), s.address); err != nil || s.asked != 2 {
		t.Errorf("a connection was not used again: %v", err)
	} else {
		b.Release(s.address, again)
	}
}

// Data connections to other machines need trust, and an invalid offer is no data connection.
func TestWhichConnectionsAreUsed(t *testing.T) {
	here := hostid.Boot()
	far, near := dataconn.Offer{Address: "inproc://far", Invitation: []byte("c"), Boot: "elsewhere"},
		dataconn.Offer{Address: "inproc://near", Invitation: []byte("c"), Boot: here}
	for _, tc := range []struct {
		about   string
		trusted bool
		offers  []dataconn.Offer
		want    string
		fails   bool
	}{
		{"none", true, []dataconn.Offer{}, "", false},
		{"another machine's", false, []dataconn.Offer{far}, "", false},
		{"another machine's, trusted", true, []dataconn.Offer{far}, far.Address, false},
		{"the one on this machine", false, []dataconn.Offer{far, near}, near.Address, false},
		{"without an address", true, []dataconn.Offer{{Boot: here}}, "", false},
		{"without an invitation", true, []dataconn.Offer{{Address: "inproc://x", Boot: here}}, "", true},
		{"of no known machine", false, []dataconn.Offer{{Address: "inproc://x", Invitation: []byte("c")}}, "", false},
	} {
		s := &server{reply: tc.offers}
		got, err := newBook(t, s, dataconn.Config{Trusted: tc.trusted}).Find(t.Context(), "peer")
		if got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s: found %q, %v", tc.about, got, err)
		}
	}
}

// A data connection that failed is left alone for a while, then its peer is asked again; one that moved is not dialed.
func TestFailures(t *testing.T) {
	s := newServer(t)
	b := newBook(t, s, dataconn.Config{Retry: time.Hour})
	find := func(b *dataconn.Book) string {
		t.Helper()
		got, err := b.Find(t.Context(), "peer")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	find(b)
	b.Failed("peer")
	if got := find(b); got != "" || s.asked != 1 {
		t.Errorf("a data connection that failed was found at %q, the peer asked %d times", got, s.asked)
	}
	if _, err := b.Acquire(t.Context(), s.address); err == nil ||
		!strings.Contains(err.Error(), "no data connection at") {
		t.Errorf("it was dialed: %v", err)
	}
	soon := newBook(t, s, dataconn.Config{Retry: time.Nanosecond})
	soon.Failed("peer")
	time.Sleep(time.Microsecond)
	if got := find(soon); got != s.address {
		t.Errorf("after a while it was found at %q", got)
	}
	first, err := soon.Acquire(t.Context(), s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.reply = []dataconn.Offer{{Address: "inproc://moved", Invitation: []byte("c"), Boot: hostid.Boot()}}
	if _, err := soon.Acquire(t.Context(), s.address); err == nil || !strings.Contains(err.Error(), "inproc://moved") {
		t.Errorf("a data connection that has moved: %v", err)
	}
	soon.Release(s.address, first)
	soon.Forget("peer")
	if got := find(soon); got != "inproc://moved" {
		t.Errorf("after it was forgotten it was found at %q", got)
	}
	s.err = errors.New("gone")
	if got, err := soon.Find(t.Context(), "other"); got != "" || !errors.Is(err, s.err) {
		t.Errorf("found %q, %v", got, err)
	}
}
