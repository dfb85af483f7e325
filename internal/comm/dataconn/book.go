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

// Config says how a book asks and dials.
type Config struct {
	// Network and Dial are how lanes are dialed. Encryption is not required of them: an invitation admits, and they do
	// not leave the machine unless they are trusted.
	Network comm.Network
	Dial    comm.DialConfig
	// Ask asks a peer over its own address; the zero Reply is that of one without lanes, a Python worker say.
	Ask func(ctx context.Context, peer string) (Reply, error)
	// Trusted uses lanes of other machines too.
	Trusted bool
	// Retry is how long a lane that failed is left alone (default 1 min).
	Retry time.Duration
}

// Book is what is known about the lanes of peers, by the address that a peer is known by. Any goroutine may use it.
type Book struct {
	cfg  Config
	boot string
	pool *rpc.Pool

	mu    sync.Mutex
	peers map[string]*entry // guarded by mu
	owner map[string]string // address of a lane to its peer's; guarded by mu
}

// entry is what is known about the lane of one peer. The book's lock owns it.
type entry struct {
	address string    // "" for none
	spare   []byte    // an invitation that nobody has used yet
	retry   time.Time // of one that failed: when it is asked for again
}

// NewBook asks nobody yet.
func NewBook(cfg Config) *Book {
	cfg.Retry = cmp.Or(cfg.Retry, time.Minute)
	cfg.Dial.RequireEncryption = false
	b := &Book{cfg: cfg, boot: hostid.Boot(), peers: map[string]*entry{}, owner: map[string]string{}}
	b.pool = rpc.NewPool(network{b}, rpc.PoolConfig{Dial: cfg.Dial})
	return b
}

// Find is the address of a peer's lane, "" if it has none or none that can be used now. The peer is asked the first
// time; an error is its.
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
		return Offer{}, fmt.Errorf("the lane of %s comes without an invitation", peer)
	}
	return o, nil
}

// Acquire returns a connection over a lane that was found. Release gives it back.
func (b *Book) Acquire(ctx context.Context, address string) (comm.Comm, error) {
	return b.pool.Acquire(ctx, address)
}

// Release gives a connection back.
func (b *Book) Release(address string, c comm.Comm) { b.pool.Release(address, c) }

// Failed leaves a peer's lane alone for a while. Then the peer is asked again: it may have been replaced.
func (b *Book) Failed(peer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.peers[peer]; e != nil {
		delete(b.owner, e.address)
	}
	b.peers[peer] = &entry{retry: time.Now().Add(b.cfg.Retry)}
}

// Forget drops what is known of a peer that is gone, and its connections.
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

// take is the peer whose lane is at an address, and an invitation of it if one is left.
func (b *Book) take(address string) (peer string, invitation []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	peer = b.owner[address]
	if e := b.peers[peer]; e != nil {
		invitation, e.spare = e.spare, nil
	}
	return peer, invitation
}

// network dials lanes, with an invitation of the peer for each connection.
type network struct{ b *Book }

// Dial connects to a lane that was found.
func (n network) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	peer, invitation := n.b.take(address)
	if peer == "" {
		return nil, fmt.Errorf("nobody has a lane at %s", address)
	}
	if invitation == nil {
		o, err := n.b.ask(ctx, peer)
		if err != nil {
			return nil, err
		}
		if o.Address != address {
			return nil, fmt.Errorf("the lane of %s is at %q now", peer, o.Address)
		}
		invitation = o.Invitation
	}
	cfg.Invitation = invitation
	return n.b.cfg.Network.Dial(ctx, address, cfg)
}

// Listen is not for lanes.
func (n network) Listen(context.Context, string, comm.ListenConfig) (comm.Listener, error) {
	return nil, errors.ErrUnsupported
}
