// Package sign signs the checksums of a release with Ed25519. Keys are PEM files in the forms of openssl, so that
// openssl verifies the signature:
//
//	openssl pkeyutl -verify -pubin -inkey release.pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig
package sign

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of the files of a release.
const (
	Sums      = "SHA256SUMS"
	Signature = "SHA256SUMS.sig"
	PublicKey = "release.pub"
)

// NewKey returns a new private key.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// ParseKey returns the private key in a PEM file of PKCS #8, as `openssl genpkey -algorithm ed25519` writes it.
func ParseKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("sign: no private key in PEM form; make one with openssl genpkey -algorithm ed25519")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("sign: private key: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("sign: private key is %T; use an Ed25519 key", parsed)
	}
	return key, nil
}

// PEM returns the private key in the form that ParseKey reads.
func PEM(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// PublicPEM returns the public key.
func PublicPEM(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// ParsePublic returns the public key in a PEM file.
func ParsePublic(text []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("sign: no public key in PEM form; use the " + PublicKey + " of the project")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("sign: public key: %w", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("sign: public key is %T; use an Ed25519 key", parsed)
	}
	return key, nil
}

// Folder writes the checksums of all files of a folder, their signature and the public key into it.
func Folder(dir string, key ed25519.PrivateKey) error {
	sums, err := sums(dir)
	if err != nil {
		return err
	}
	public, err := PublicPEM(key)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{Sums: sums, Signature: ed25519.Sign(key, sums), PublicKey: public} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("sign: %w", err)
		}
	}
	return nil
}

// sums returns the lines that `sha256sum --check` reads.
func sums(dir string) ([]byte, error) {
	names, err := files(dir)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("sign: %w", err)
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return b.Bytes(), nil
}

// files returns the names of the files that have checksums.
func files(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if rel = filepath.ToSlash(rel); !slices.Contains([]string{Sums, Signature, PublicKey}, rel) {
			names = append(names, rel)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// Verify checks the signature of a folder and all checksums. Files without a checksum are an error.
func Verify(dir string, key ed25519.PublicKey) error {
	text, err := os.ReadFile(filepath.Join(dir, Sums))
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	signature, err := os.ReadFile(filepath.Join(dir, Signature))
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	if !ed25519.Verify(key, text, signature) {
		return fmt.Errorf("sign: the signature of %s is not of this key; do not use these files", Sums)
	}
	want := map[string]string{}
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		sum, name, ok := strings.Cut(sc.Text(), "  ")
		if !ok || !fs.ValidPath(name) {
			return fmt.Errorf("sign: line %q of %s is not a checksum and a name; download the file again", sc.Text(),
				Sums)
		}
		want[name] = sum
	}
	names, err := files(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want[name] {
			return fmt.Errorf("sign: checksum of %s is %s, not %q; do not use this file", name, got, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		return fmt.Errorf("sign: %s is missing; download it", name)
	}
	return nil
}
