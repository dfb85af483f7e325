package secure

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// DefaultTokenValid is how long a join token is valid.
const DefaultTokenValid = time.Hour

// maxTokens bounds the number of unused tokens.
const maxTokens = 10_000

// ErrToken is returned for every token that is not valid: unknown, used or expired. The error does not say which, to
// give no hint for guessing.
var ErrToken = errors.New("secure: the join token is not valid (each is good for one use and for a limited time)")

// Tokens issues and redeems one-time join tokens, each for one certificate. Only hashes are kept. It is safe for
// concurrent use.
type Tokens struct {
	ca  *CA
	now func() time.Time

	mu      sync.Mutex // owns pending
	pending map[string]*token
}

type token struct {
	hash  [32]byte
	roles []Role
	until time.Time
}

// NewTokens returns an issuer for a CA.
func NewTokens(ca *CA) *Tokens {
	return &Tokens{ca: ca, now: time.Now, pending: make(map[string]*token)}
}

// A token is ms1.ID.SECRET.FINGERPRINT, the parts in URL-safe base64. With the fingerprint of the CA the joining
// process can authenticate the issuer before it sends the rest.
const tokenVersion = "ms1"

var b64 = base64.RawURLEncoding

// Issue returns a token for a certificate with the given roles. Zero means DefaultTokenValid.
func (t *Tokens) Issue(valid time.Duration, roles ...Role) (string, error) {
	if len(roles) == 0 {
		return "", errors.New("secure: a join token needs a role")
	}
	for _, r := range roles {
		if err := r.check(); err != nil {
			return "", err
		}
	}
	if valid <= 0 {
		valid = DefaultTokenValid
	}
	var raw [8 + 32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	id, secret := b64.EncodeToString(raw[:8]), raw[8:]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if len(t.pending) >= maxTokens {
		return "", fmt.Errorf("secure: %d unused join tokens: let some expire", len(t.pending))
	}
	t.pending[id] = &token{hash: sha256.Sum256(secret), roles: roles, until: t.now().Add(valid)}
	fp := t.ca.Fingerprint()
	return strings.Join([]string{tokenVersion, id, b64.EncodeToString(secret), b64.EncodeToString(fp[:])}, "."), nil
}

func (t *Tokens) expire() {
	now := t.now()
	for id, p := range t.pending {
		if !now.Before(p.until) {
			delete(t.pending, id)
		}
	}
}

// Redeem exchanges a token and a certificate request (see NewRequest) for a certificate in PEM form. A valid token is
// used up even if the request is invalid.
func (t *Tokens) Redeem(text string, csr []byte) (cert []byte, err error) {
	roles, err := t.use(text)
	if err != nil {
		return nil, err
	}
	return t.ca.Sign(csr, Request{Roles: roles})
}

func (t *Tokens) use(text string) ([]Role, error) {
	parts := strings.Split(text, ".")
	if len(text) > 256 || len(parts) != 4 || parts[0] != tokenVersion {
		return nil, ErrToken
	}
	secret, err := b64.DecodeString(parts[2])
	if err != nil {
		return nil, ErrToken
	}
	hash := sha256.Sum256(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pending[parts[1]]
	if p == nil || subtle.ConstantTimeCompare(hash[:], p.hash[:]) != 1 || !t.now().Before(p.until) {
		return nil, ErrToken
	}
	delete(t.pending, parts[1])
	return p.roles, nil
}

// TokenFingerprint returns the fingerprint of the CA that issued a token.
func TokenFingerprint(text string) (fp [32]byte, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != tokenVersion {
		return fp, errors.New("secure: not a join token: want the form ms1.….….…")
	}
	b, err := b64.DecodeString(parts[3])
	if err != nil || len(b) != len(fp) {
		return fp, errors.New("secure: join token is damaged: copy all of it again")
	}
	return [32]byte(b), nil
}
