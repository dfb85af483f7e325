package secure

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func newTestCookies(t testing.TB) (*Cookies, *time.Time) {
	t.Helper()
	c, err := NewCookies(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	c.now = func() time.Time { return now }
	return c, &now
}

func TestCookies(t *testing.T) {
	c, now := newTestCookies(t)
	for _, peer := range []string{"", "tcp://10.0.0.1:8786", strings.Repeat("x", maxPeer)} {
		cookie, err := c.Issue(peer)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cookie {
			bad := bytes.Clone(cookie)
			bad[i] ^= 1
			if _, err := c.Use(bad); !errors.Is(err, ErrCookie) {
				t.Fatalf("byte %d changed: %v", i, err)
			}
		}
		for _, n := range []int{0, 1, peerAt, len(cookie) - 1} {
			if c.Admit("tcp://1.2.3.4:5", cookie[:n]) {
				t.Errorf("%d of %d bytes were admitted", n, len(cookie))
			}
		}
		if got, err := c.Use(cookie); err != nil || got != peer {
			t.Errorf("the cookie of %q is of %q, %v", peer, got, err)
		}
		if _, err := c.Use(cookie); !errors.Is(err, ErrCookie) {
			t.Errorf("a second use: %v", err)
		}
	}
	late, err := c.Issue("late")
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newTestCookies(t)
	if other.Admit("late", late) {
		t.Error("another issuer's cookie was admitted")
	}
	*now = now.Add(time.Minute)
	if c.Admit("late", late) {
		t.Error("a cookie was admitted after its time")
	}
	*now = now.Add(time.Minute)
	fresh, err := c.Issue("fresh")
	if err != nil || !c.Admit("fresh", fresh) {
		t.Fatalf("a fresh cookie is refused: %v", err)
	}
	if len(c.used) != 1 {
		t.Errorf("%d used cookies are remembered, of which one is still valid", len(c.used))
	}
	if _, err := c.Issue(strings.Repeat("x", maxPeer+1)); err == nil {
		t.Error("an address without bound")
	}
}

func FuzzCookie(f *testing.F) {
	c, _ := newTestCookies(f)
	cookie, err := c.Issue("tcp://1.2.3.4:5")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add(cookie[:len(cookie)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		if peer, err := c.Use(b); err == nil && !bytes.Equal(b, cookie) {
			t.Errorf("a forged cookie of %q", peer)
		}
	})
}

// A cookie admits the host that it was issued to, whatever port or interface of this
// machine is used.
func TestCookieOfHost(t *testing.T) {
	c, _ := newTestCookies(t)
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
		cookie, err := c.Issue(test.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Admit(test.shown, cookie); got != test.want {
			t.Errorf("a cookie of %s shown by %s: admitted %t, want %t", test.to, test.shown, got, test.want)
		}
	}
}
