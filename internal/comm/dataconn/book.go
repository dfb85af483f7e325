package dataconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/rpc"
)

// Config configures a Book.
type Config struct {
	// Network and Dial are used to dial data connections. They are not required to be encrypted: an invitation admits
	// them, and they do not leave the machine unless they are trusted.
	Network comm.Network
	Dial    comm.DialConfig
	// Ask queries a peer over its own address; the zero Reply is that of a peer without data connections, such as a
	// Python worker.
	Ask func(ctx context.Context, peer string) (Reply, error)
	// Trusted allows data connections of other machines too.
	Trusted bool
	// Retry is how long a data connection that failed is not used (default 1 min).
	Retry time.Duration
}

// Book caches the data connections of peers, by the address that a peer is known by. It is safe for concurrent use.
type Book struct {
	cfg  Config
	boot string
	pool *rpc.Pool

	mu    sync.Mutex
	peers map[string]*entry // guarded by mu
	owner map[string]string // address of a data connection to its peer's; guarded by mu
}

// entry is the state of the data connection of one peer. Guarded by the lock of the book.
type entry struct {
	address string    // "" for none
	spare   []byte    // an unused invitation
	retry   time.Time // after a failure: when the peer is queried again
}

// NewBook returns an empty book.
func NewBook(cfg Config) *Book {
	cfg.Retry = cmp.Or(cfg.Retry, time.Minute)
	cfg.Dial.RequireEncryption = false
	b := &Book{cfg: cfg, boot: hostid.Boot(), peers: map[string]*entry{}, owner: map[string]string{}}
	b.pool = rpc.NewPool(network{b}, rpc.PoolConfig{Dial: cfg.Dial})
	return b
}

// Find returns the address of a peer's data connection, "" if it has none or none that can be used now. The peer is
// queried the first time; the error is that of the query.
func (b *Book) Find(ctx context.Context, peer string) (string, error) {
	b.mu.Lock()
	e := b.peers[peer]
	known := e != nil && (e.retry.IsZero() || time.Now().Before(e.retry))
	address := ""
	if known {
		address = e.address
	}
	b.mu.Unlock()
	if known {
		return address, nil
	}
	o, err := b.ask(ctx, peer)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers[peer] = &entry{address: o.Address, spare: o.Invitation}
	if o.Address != "" {
		b.owner[o.Address] = peer
	}
	return o.Address, nil
}

func (b *Book) ask(ctx context.Context, peer string) (Offer, error) {
	r, err := b.cfg.Ask(ctx, peer)
	if err != nil {
		return Offer{}, err
	}
	o := r.usable(b.boot, b.cfg.Trusted)
	if o.Address != "" && len(o.Invitation) == 0 {
		return Offer{}, fmt.Errorf("no invitation with the data connection of %s", peer)
	}
	return o, nil
}

// Acquire returns a connection to an address of Find. Release returns it.
func (b *Book) Acquire(ctx context.Context, address string) (comm.Comm, error) {
	return b.pool.Acquire(ctx, address)
}

// Release returns a connection.
func (b *Book) Release(address string, c comm.Comm) { b.pool.Release(address, c) }

// Failed disables a peer's data connection for a while. Then the peer is queried again: it may have been replaced.
func (b *Book) Failed(peer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.peers[peer]; e != nil {
		delete(b.owner, e.address)
	}
	b.peers[peer] = &entry{retry: time.Now().Add(b.cfg.Retry)}
}

// Forget removes a peer that is gone, and its connections.
func (b *Book) Forget(peer string) {
	b.mu.Lock()
	e := b.peers[peer]
	delete(b.peers, peer)
	if e != nil {
		delete(b.owner, e.address)
	}
	b.mu.Unlock()
	if e != nil && e.address != "" {
		b.pool.Remove(e.address)
	}
}

// Close ends all connections.
func (b *Book) Close() error { return b.pool.Close() }

// take returns the peer whose data connection is at an address, and an invitation if one is left.
func (b *Book) take(address string) (peer string, invitation []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	peer = b.owner[address]
	if e := b.peers[peer]; e != nil {
		invitation, e.spare = e.spare, nil
	}
	return peer, invitation
}

// network dials data connections, with an invitation of the peer for each.
type network struct{ b *Book }

// Dial connects to an address of Find.
func (n network) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	peer, invitation := n.b.take(address)
	if peer == "" {
		return nil, fmt.Errorf("no data connection at %s", address)
	}
	if invitation == nil {
		o, err := n.b.ask(ctx, peer)
		if err != nil {
			return nil, err
		}
		if o.Address != address {
			return nil, fmt.Errorf("data connection of %s has moved to %q", peer, o.Address)
		}
		invitation = o.Invitation
	}
	cfg.Invitation = invitation
	return n.b.cfg.Network.Dial(ctx, address, cfg)
}

// Listen is not supported.
func (n network) Listen(context.Context, string, comm.ListenConfig) (comm.Listener, error) {
	return nil, errors.ErrUnsupported
}
