package httpguard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// None is the token of a server that admits every request.
const None = "none"

const (
	minToken = 16
	maxToken = 256
)

// NewToken returns a random token of at least 128 bits.
func NewToken() string { return rand.Text() }

// CheckToken reports why a token of a user cannot be used. "" and None can. The error does not contain the token.
func CheckToken(token string) error {
	switch {
	case token == "" || token == None:
		return nil
	case len(token) < minToken || len(token) > maxToken:
		return fmt.Errorf("dashboard token of %d characters: want %d to %d, or %s", len(token), minToken, maxToken,
			None)
	}
	for _, c := range []byte(token) {
		letter := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && !strings.ContainsRune("-._~+/=", rune(c)) {
			return errors.New("dashboard token: want letters, digits and -._~+/= only")
		}
	}
	return nil
}

// Token returns a token, or the token in a file if there is one.
func Token(token, file string) (string, error) {
	if token != "" && file != "" {
		return "", errors.New("dashboard token and token file: set one of them")
	}
	if file == "" {
		return token, CheckToken(token)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("dashboard token file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", fmt.Errorf("dashboard token file: %w", err)
	}
	token = strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("dashboard token file %s is empty", file)
	}
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("%w (in %s)", err, file)
	}
	return token, nil
}

// CreateTokenFile writes a new token to a file that only its owner can read, unless the file exists. Processes that
// start together agree on one token.
func CreateTokenFile(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".token-*")
	if err != nil {
		return fmt.Errorf("dashboard token file: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(NewToken() + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), file) // unlike a rename, fails if the file exists
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("dashboard token file: %w", err)
	}
	return nil
}

// Link returns the URL by which a browser opens a server at host:port, with its token if it has one.
func Link(address, token string, tls bool) string {
	u := url.URL{Scheme: "http", Host: address, Path: "/"}
	if tls {
		u.Scheme = "https"
	}
	if token != "" && token != None {
		u.RawQuery = url.Values{"token": {token}}.Encode()
	}
	return u.String()
}

// equal compares two secrets in a time that does not depend on where they differ.
func equal(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// cookieValue returns the value of the cookie for a token. Browsers send the cookie to every port of the host, so it is
// derived from the token, and other servers do not learn the token from it.
func cookieValue(token, name string) string {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte(name))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
