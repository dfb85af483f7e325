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

// DefaultInvitationValid is how long an invitation is valid.
const DefaultInvitationValid = time.Minute

// maxInvitations bounds the number of used invitations that are remembered, and so of those valid at once.
const maxInvitations = 100_000

// An invitation is version, expiry (ns since 1970, big-endian), nonce, the peer's address, and an HMAC-SHA256
// over all of it.
const (
	invitationVersion = 1
	nonceAt           = 1 + 8
	peerAt            = nonceAt + 16
	macSize           = sha256.Size
	maxPeer           = 512
)

// ErrInvitation is returned for every invitation that is not valid.
var ErrInvitation = errors.New("secure: invitation not valid (each is good for one use, one peer and a limited time)")

// Invitations issues and checks the invitations that admit data connections. They are sent over the control connection,
// whose peer is authenticated, and presented once on the new data connection. It is safe for concurrent use.
type Invitations struct {
	key   [32]byte
	valid time.Duration
	now   func() time.Time

	mu   sync.Mutex // owns used
	used map[[16]byte]time.Time
	last time.Time // of the last clean-up
}

// NewInvitations returns an issuer with a new key. Zero means DefaultInvitationValid.
func NewInvitations(valid time.Duration) (*Invitations, error) {
	if valid <= 0 {
		valid = DefaultInvitationValid
	}
	c := &Invitations{valid: valid, now: time.Now, used: make(map[[16]byte]time.Time)}
	_, err := rand.Read(c.key[:])
	return c, err
}

// Issue returns an invitation for a peer, identified by its address on the control comm.
func (c *Invitations) Issue(peer string) ([]byte, error) {
	if len(peer) > maxPeer {
		return nil, fmt.Errorf("secure: peer address of %d bytes exceeds %d", len(peer), maxPeer)
	}
	b := make([]byte, peerAt, peerAt+len(peer)+macSize)
	b[0] = invitationVersion
	binary.BigEndian.PutUint64(b[1:], uint64(c.now().Add(c.valid).UnixNano()))
	if _, err := rand.Read(b[nonceAt:peerAt]); err != nil {
		return nil, err
	}
	b = append(b, peer...)
	return append(b, c.mac(b)...), nil
}

func (c *Invitations) mac(b []byte) []byte {
	h := hmac.New(sha256.New, c.key[:])
	h.Write(b)
	return h.Sum(nil)
}

// Use checks an invitation and returns the peer that it was issued to. It succeeds once.
func (c *Invitations) Use(invitation []byte) (peer string, err error) {
	if n := len(invitation); n < peerAt+macSize || n > peerAt+maxPeer+macSize || invitation[0] != invitationVersion {
		return "", ErrInvitation
	}
	text, mac := invitation[:len(invitation)-macSize], invitation[len(invitation)-macSize:]
	if !hmac.Equal(mac, c.mac(text)) {
		return "", ErrInvitation
	}
	until := time.Unix(0, int64(binary.BigEndian.Uint64(text[1:])))
	nonce := [16]byte(text[nonceAt:peerAt])
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(until) {
		return "", ErrInvitation
	}
	if _, again := c.used[nonce]; again {
		return "", ErrInvitation
	}
	if len(c.used) >= maxInvitations || now.Sub(c.last) > c.valid {
		c.last = now
		for n, t := range c.used {
			if !now.Before(t) {
				delete(c.used, n)
			}
		}
		if len(c.used) >= maxInvitations {
			return "", fmt.Errorf("secure: more than %d invitations within %v: %w", maxInvitations, c.valid,
				ErrInvitation)
		}
	}
	c.used[nonce] = until
	return string(text[peerAt:]), nil
}

// Admit is Use for comm.ListenConfig.Admit: the peer that presents the invitation must be on the host that it was
// issued to, so that a stolen invitation is useless elsewhere.
func (c *Invitations) Admit(peer string, invitation []byte) bool {
	to, err := c.Use(invitation)
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

// sameMachine reports whether two hosts are the same machine. All addresses of this machine count as one: the control
// connection may use another interface than the data connection. Addresses without a host are those of one process or
// one file system.
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
