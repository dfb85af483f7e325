package httpguard

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestCheckToken(t *testing.T) {
	for token, ok := range map[string]bool{"": true, None: true, NewToken(): true, strings.Repeat("a", 16): true,
		"abcDEF012-._~+/=": true, strings.Repeat("a", 15): false, strings.Repeat("a", 257): false,
		strings.Repeat("a", 16) + " ": false, strings.Repeat("ä", 16): false, strings.Repeat("a\n", 16): false} {
		if err := CheckToken(token); (err == nil) != ok {
			t.Errorf("CheckToken(%q): got %v, want ok %v", token, err, ok)
		}
	}
	if a, b := NewToken(), NewToken(); a == b || len(a) < 26 { // base32
		t.Errorf("tokens: got %s and %s, want different ones of 128 bits", a, b)
	}
}

// Processes that create the file at the same time read the same token, and only the owner can read it.
func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if _, err := Token("", file); err == nil {
		t.Error("missing file: got no error")
	}
	var all sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		all.Go(func() {
			if err := CreateTokenFile(file); err != nil {
				t.Error(err)
			}
			var err error
			if got[i], err = Token("", file); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, g := range got {
		if g != got[0] || len(g) < 26 {
			t.Errorf("tokens: got %q, want the same one", got)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the file: got %v (%v), want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".token-*")); len(left) > 0 {
		t.Errorf("temporary files: got %v, want none", left)
	}
	if _, err := Token(NewToken(), file); err == nil {
		t.Error("token and file: got no error")
	}
	for text, ok := range map[string]bool{"": false, "short": false, None: true, " abcdefghijklmnop\n": true,
		strings.Repeat("a", 1<<20): false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Token("", file); (err == nil) != ok {
			t.Errorf("file with %.20q: got %v, want ok %v", text, err, ok)
		}
	}
	if err := CreateTokenFile(filepath.Join(t.TempDir(), "missing", "token")); err == nil {
		t.Error("folder that does not exist: got no error")
	}
}

func TestLink(t *testing.T) {
	for _, c := range []struct {
		address, token string
		tls            bool
		want           string
	}{
		{"127.0.0.1:8787", "", false, "http://127.0.0.1:8787/"},
		{"10.0.0.1:8787", None, true, "https://10.0.0.1:8787/"},
		{"[fd00::1]:1", "a+b/c=aaaaaaaaaaaa", true, "https://[fd00::1]:1/?token=a%2Bb%2Fc%3Daaaaaaaaaaaa"},
	} {
		if got := Link(c.address, c.token, c.tls); got != c.want {
			t.Errorf("Link(%s, %s, %v): got %s, want %s", c.address, c.token, c.tls, got, c.want)
		}
	}
}

func TestNeedsToken(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "localhost:1": false,
		"0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, ":1": true, "nonsense": true} {
		if got := NeedsToken(address); got != want {
			t.Errorf("NeedsToken(%q): got %v, want %v", address, got, want)
		}
	}
}
