package sign

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func signed(t *testing.T) (dir string, key ed25519.PrivateKey) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "python"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.tar.gz", "b.deb", "python/c.whl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := Folder(dir, key); err != nil {
		t.Fatal(err)
	}
	return dir, key
}

func public(t *testing.T, dir string) ed25519.PublicKey {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParsePublic(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestVerify(t *testing.T) {
	dir, _ := signed(t)
	if err := Verify(dir, public(t, dir)); err != nil {
		t.Fatal(err)
	}
	other, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	err = Verify(dir, other.Public().(ed25519.PublicKey))
	if err == nil || !strings.Contains(err.Error(), "this key") {
		t.Errorf("another key: got error %v", err)
	}
}

func TestChanged(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"checksum of b.deb": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "b.deb"), []byte("changed"), 0o644)
		},
		"checksum of added": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "added"), nil, 0o644)
		},
		"python/c.whl is missing": func(dir string) error { return os.Remove(filepath.Join(dir, "python/c.whl")) },
		"not of this key": func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, Sums), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("\n")
				_ = f.Close()
			}
			return err
		},
		"no such file": func(dir string) error { return os.Remove(filepath.Join(dir, Signature)) },
	} {
		dir, _ := signed(t)
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if err := Verify(dir, public(t, dir)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got error %v, want one with %q", err, name)
		}
	}
}

// TestPrograms verifies a release with sha256sum and, where it is installed, openssl, as the guide does.
func TestPrograms(t *testing.T) {
	dir, _ := signed(t)
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s %s: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	if got := run("sha256sum", "--check", Sums); strings.Count(got, ": OK") != 3 {
		t.Errorf("sha256sum: got %s", got)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Log("openssl is not installed; TestVerify checks the signature")
		return
	}
	got := run("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", PublicKey, "-rawin", "-in", Sums, "-sigfile",
		Signature)
	if !strings.Contains(got, "Verified Successfully") {
		t.Errorf("openssl: got %s", got)
	}
}

func TestKeys(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := PEM(key)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseKey(text); err != nil || !got.Equal(key) {
		t.Errorf("a key that was written and read differs, %v", err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(curve.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, []byte("text"),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})} {
		if _, err := ParseKey(bad); err == nil {
			t.Errorf("private key %q: no error", bad)
		}
		if _, err := ParsePublic(bad); err == nil {
			t.Errorf("public key %q: no error", bad)
		}
	}
}
