package secure

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTokenGetsACertificate(t *testing.T) {
	ca := newTestCA(t, CAConfig{})
	tokens := NewTokens(ca)
	text, err := tokens.Issue(0, Worker)
	if err != nil {
		t.Fatal(err)
	}
	if fp, err := TokenFingerprint(text); err != nil || fp != ca.Fingerprint() {
		t.Errorf("the token names another CA: %v", err)
	}
	csr, key, err := NewRequest("w1")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tokens.Redeem(text, csr)
	if err != nil {
		t.Fatal(err)
	}
	id := &Identity{Cert: cert, Key: key, CA: ca.PEM()}
	if got := RolesOf(parse(t, cert)); !slices.Equal(got, []Role{Worker}) {
		t.Errorf("roles %v", got)
	}
	dial, listen := configs(t, id, issue(t, ca, Request{}))
	if _, c, s := talk(t, dial, listen); c != nil || s != nil {
		t.Errorf("the new certificate: %v, %v", c, s)
	}
	if _, err := tokens.Redeem(text, csr); !errors.Is(err, ErrToken) {
		t.Errorf("a second use: %v", err)
	}
	// Nothing that was kept is the secret.
	if len(tokens.pending) != 0 {
		t.Error("a used token is kept")
	}
}

func TestTokenRefused(t *testing.T) {
	ca := newTestCA(t, CAConfig{})
	tokens := NewTokens(ca)
	now := time.Now()
	tokens.now = func() time.Time { return now }
	text, err := tokens.Issue(time.Minute, Client)
	if err != nil {
		t.Fatal(err)
	}
	csr, _, err := NewRequest("x")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(text, ".")
	for _, bad := range []string{
		"", "ms1", "ms2." + strings.Join(parts[1:], "."), strings.Join(parts[:3], "."),
		parts[0] + "." + parts[1] + ".AAAA." + parts[3], parts[0] + ".AAAA." + parts[2] + "." + parts[3],
		parts[0] + "." + parts[1] + ".?." + parts[3], text + strings.Repeat("A", 300),
	} {
		if _, err := tokens.Redeem(bad, csr); !errors.Is(err, ErrToken) {
			t.Errorf("token %.20q: %v", bad, err)
		}
	}
	now = now.Add(time.Minute)
	if _, err := tokens.Redeem(text, csr); !errors.Is(err, ErrToken) {
		t.Errorf("a token whose time is over: %v", err)
	}
	if _, err := tokens.Issue(0); err == nil {
		t.Error("a token without a role")
	}
	if _, err := tokens.Issue(0, "emperor"); err == nil {
		t.Error("a token for an unknown role")
	}
	if len(tokens.pending) != 1 {
		t.Fatal("the old token is gone before anybody looks")
	}
	if text, err = tokens.Issue(0, Client); err != nil || len(tokens.pending) != 1 {
		t.Errorf("old tokens stay: %d, %v", len(tokens.pending), err)
	}
	if _, err := tokens.Redeem(text, []byte("no request")); err == nil || errors.Is(err, ErrToken) {
		t.Errorf("a request that is none: %v", err)
	}
	for _, bad := range []string{"x", "ms1.a.b.c"} {
		if _, err := TokenFingerprint(bad); err == nil {
			t.Errorf("fingerprint of %q", bad)
		}
	}
}

// A token that many show at once is used once.
func TestTokenOnce(t *testing.T) {
	tokens := NewTokens(newTestCA(t, CAConfig{}))
	text, err := tokens.Issue(0, Worker)
	if err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if _, err := tokens.use(text); err == nil {
				won.Add(1)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d had the token", won.Load())
	}
}

func FuzzToken(f *testing.F) {
	ca, err := NewCA(CAConfig{Ed25519: true})
	if err != nil {
		f.Fatal(err)
	}
	tokens := NewTokens(ca)
	good, err := tokens.Issue(0, Worker)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("ms1.a.b.c")
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := tokens.use(text); err == nil && !strings.HasPrefix(text, good[:60]) {
			t.Errorf("accepted %q", text)
		}
		_, _ = TokenFingerprint(text)
	})
}
