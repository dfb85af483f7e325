package secure

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// DefaultCookieValid is how long a cookie can be used.
const DefaultCookieValid = time.Minute

// maxCookies bounds the used cookies that are remembered, and so how many are valid at
// once.
const maxCookies = 100_000

// A cookie is version, expiry (ns since 1970, big-endian), nonce, the peer's address, and an HMAC-SHA256
// over all of it.
const (
	cookieVersion = 1
	nonceAt       = 1 + 8
	peerAt        = nonceAt + 16
	macSize       = sha256.Size
	maxPeer       = 512
)

// ErrCookie is returned for every cookie that is not valid.
var ErrCookie = errors.New("secure: the cookie is not valid (each is good for one use, one peer and a limited time)")

// Cookies issues and checks the cookies that admit data lanes. They are handed out over
// the control comm, to a peer that is known there, and shown once on the new lane. Any
// goroutine may use it.
type Cookies struct {
	key   [32]byte
	valid time.Duration
	now   func() time.Time

	mu   sync.Mutex // owns used
	used map[[16]byte]time.Time
	last time.Time // of the last clean-up
}

// NewCookies makes an issuer with a new key. Zero means DefaultCookieValid.
func NewCookies(valid time.Duration) (*Cookies, error) {
	if valid <= 0 {
		valid = DefaultCookieValid
	}
	c := &Cookies{valid: valid, now: time.Now, used: make(map[[16]byte]time.Time)}
	_, err := rand.Read(c.key[:])
	return c, err
}

// Issue makes a cookie for a peer, named by its address on the control comm.
func (c *Cookies) Issue(peer string) ([]byte, error) {
	if len(peer) > maxPeer {
		return nil, fmt.Errorf("secure: the peer's address has %d bytes, the limit is %d", len(peer), maxPeer)
	}
	b := make([]byte, peerAt, peerAt+len(peer)+macSize)
	b[0] = cookieVersion
	binary.BigEndian.PutUint64(b[1:], uint64(c.now().Add(c.valid).UnixNano()))
	if _, err := rand.Read(b[nonceAt:peerAt]); err != nil {
		return nil, err
	}
	b = append(b, peer...)
	return append(b, c.mac(b)...), nil
}

func (c *Cookies) mac(b []byte) []byte {
	h := hmac.New(sha256.New, c.key[:])
	h.Write(b)
	return h.Sum(nil)
}

// Use checks a cookie and returns the peer that it was issued to. It works once.
func (c *Cookies) Use(cookie []byte) (peer string, err error) {
	if len(cookie) < peerAt+macSize || len(cookie) > peerAt+maxPeer+macSize || cookie[0] != cookieVersion {
		return "", ErrCookie
	}
	text, mac := cookie[:len(cookie)-macSize], cookie[len(cookie)-macSize:]
	if !hmac.Equal(mac, c.mac(text)) {
		return "", ErrCookie
	}
	until := time.Unix(0, int64(binary.BigEndian.Uint64(text[1:])))
	nonce := [16]byte(text[nonceAt:peerAt])
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(until) {
		return "", ErrCookie
	}
	if _, again := c.used[nonce]; again {
		return "", ErrCookie
	}
	if len(c.used) >= maxCookies || now.Sub(c.last) > c.valid {
		c.last = now
		for n, t := range c.used {
			if !now.Before(t) {
				delete(c.used, n)
			}
		}
		if len(c.used) >= maxCookies {
			return "", fmt.Errorf("secure: more than %d cookies within %v: %w", maxCookies, c.valid, ErrCookie)
		}
	}
	c.used[nonce] = until
	return string(text[peerAt:]), nil
}

// Admit is Use for comm.ListenConfig.Cookies: the peer that shows the cookie must be on the
// host that it was issued to. A cookie that was stolen is of no use elsewhere.
func (c *Cookies) Admit(peer string, cookie []byte) bool {
	to, err := c.Use(cookie)
	return err == nil && sameMachine(hostOf(to), hostOf(peer))
}

// hostOf returns the host of an address such as tls://10.0.0.1:8786, "" if it has none.
func hostOf(address string) string {
	_, loc, found := strings.Cut(address, "://")
	if !found {
		loc = address
	}
	host, _, err := net.SplitHostPort(loc)
	if err != nil {
		return ""
	}
	return host
}

// sameMachine reports whether two hosts are one. Addresses of this machine are all one:
// the control connection may use another interface than the data connection. Addresses
// without a host are those of one process or one file system.
func sameMachine(a, b string) bool {
	return a == b || a == "" || b == "" || isOwn(a) && isOwn(b)
}

// isOwn reports whether a host is an address of this machine.
func isOwn(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost"
	}
	ip = ip.Unmap()
	if ip.IsLoopback() {
		return true
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip {
			return true
		}
	}
	return false
}
