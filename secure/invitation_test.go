package secure

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func testInvitations(t testing.TB) (*Invitations, *time.Time) {
	t.Helper()
	c, err := NewInvitations(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	c.now = func() time.Time { return now }
	return c, &now
}

func TestInvitations(t *testing.T) {
	c, now := testInvitations(t)
	for _, peer := range []string{"", "tcp://10.0.0.1:8786", strings.Repeat("x", maxPeer)} {
		invitation, err := c.Issue(peer)
		if err != nil {
			t.Fatal(err)
		}
		for i := range invitation {
			bad := bytes.Clone(invitation)
			bad[i] ^= 1
			if _, err := c.Use(bad); !errors.Is(err, ErrInvitation) {
				t.Fatalf("byte %d changed: %v", i, err)
			}
		}
		for _, n := range []int{0, 1, peerAt, len(invitation) - 1} {
			if c.Admit("tcp://1.2.3.4:5", invitation[:n]) {
				t.Errorf("%d of %d bytes were admitted", n, len(invitation))
			}
		}
		if got, err := c.Use(invitation); err != nil || got != peer {
			t.Errorf("the invitation of %q is of %q, %v", peer, got, err)
		}
		if _, err := c.Use(invitation); !errors.Is(err, ErrInvitation) {
			t.Errorf("a second use: %v", err)
		}
	}
	late, err := c.Issue("late")
	if err != nil {
		t.Fatal(err)
	}
	other, _ := testInvitations(t)
	if other.Admit("late", late) {
		t.Error("another issuer's invitation was admitted")
	}
	*now = now.Add(time.Minute)
	if c.Admit("late", late) {
		t.Error("an invitation was admitted after its time")
	}
	*now = now.Add(time.Minute)
	fresh, err := c.Issue("fresh")
	if err != nil || !c.Admit("fresh", fresh) {
		t.Fatalf("a fresh invitation is refused: %v", err)
	}
	if len(c.used) != 1 {
		t.Errorf("%d used invitations are remembered, of which one is still valid", len(c.used))
	}
	if _, err := c.Issue(strings.Repeat("x", maxPeer+1)); err == nil {
		t.Error("an address without bound")
	}
}

func FuzzInvitation(f *testing.F) {
	c, _ := testInvitations(f)
	invitation, err := c.Issue("tcp://1.2.3.4:5")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add(invitation[:len(invitation)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		if peer, err := c.Use(b); err == nil && !bytes.Equal(b, invitation) {
			t.Errorf("a forged invitation of %q", peer)
		}
	})
}

// An invitation admits the host that it was issued to, whatever port or interface of this
// machine is used.
func TestInvitationOfHost(t *testing.T) {
	c, _ := testInvitations(t)
	for _, test := range []struct {
		to, shown string
		want      bool
	}{
		{"tls://10.1.2.3:1000", "ucxx://10.1.2.3:2000", true},
		{"tls://10.1.2.3:1000", "ucxx://10.1.2.4:1000", false},
		{"tls://10.1.2.3:1000", "ucxx://127.0.0.1:1000", false},
		{"tls://127.0.0.1:1", "ucxx://127.0.0.2:2", true},
		{"tls://[::1]:1", "ucxx://127.0.0.1:2", true},
		{"inproc://1", "inproc://2", true},
	} {
		invitation, err := c.Issue(test.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Admit(test.shown, invitation); got != test.want {
			t.Errorf("an invitation of %s shown by %s: admitted %t, want %t", test.to, test.shown, got, test.want)
		}
	}
}
