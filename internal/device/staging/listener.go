package staging

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// magic is the first message of every connection to a listener, with the version of what follows: a token, the stripe's
// number and the number of stripes (a byte each), which is answered with one byte.
const magic = "MSlines1"

const (
	tokenSize = 16
	joinSize  = len(magic) + tokenSize + 2
	// MaxStripes bounds the stripes of a comm.
	MaxStripes = 16
	// joinTime bounds the time for the first message of a connection; maxPending bounds such connections.
	joinTime    = 5 * time.Second
	joinPending = 64
)

// Listener is a TCP listener for the stripes of comms that have no byte connection themselves (ucxx://). A connection
// presents a token that was sent over the comm; others are rejected.
type Listener struct {
	ln      *net.TCPListener
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool                       // guarded by mu
	offers  map[[tokenSize]byte]*Offer // guarded by mu
	pending map[net.Conn]struct{}      // before their first message; guarded by mu
}

// Offer is a comm that waits for its stripes.
type Offer struct {
	door  *Listener
	token [tokenSize]byte
	done  chan struct{} // closed when all stripes have arrived

	// Guarded by the lock of the listener; owned by the caller of Take after that.
	list []net.Conn
	have int
}

// Listen listens on a host, at any free port.
func Listen(ctx context.Context, host string) (*Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("staging: listen for stripes: %w", err)
	}
	d := &Listener{ln: ln.(*net.TCPListener), offers: map[[tokenSize]byte]*Offer{}, pending: map[net.Conn]struct{}{}}
	d.running.Go(d.serve)
	return d, nil
}

// Port returns the bound port.
func (d *Listener) Port() int { return d.ln.Addr().(*net.TCPAddr).Port }

// Close stops listening and rejects pending connections. Stripes of Take stay open. It is idempotent.
func (d *Listener) Close() error {
	d.mu.Lock()
	d.closed = true
	var list []net.Conn
	for c := range d.pending {
		list = append(list, c)
	}
	for _, o := range d.offers {
		list = append(list, o.list...)
	}
	clear(d.offers)
	d.mu.Unlock()
	err := d.ln.Close()
	closeAll(list)
	d.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

func closeAll(list []net.Conn) {
	for _, c := range list {
		if c != nil {
			_ = c.Close()
		}
	}
}

func (d *Listener) serve() {
	places := make(chan struct{}, joinPending)
	for {
		c, err := d.ln.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(5 * time.Millisecond) // mostly out of descriptors
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			_ = c.Close()
			continue
		}
		d.running.Go(func() {
			defer func() { <-places }()
			if d.admit(c) != nil {
				_ = c.Close()
			}
		})
	}
}

// admit reads the first message of a connection and assigns it to its offer.
func (d *Listener) admit(c net.Conn) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return net.ErrClosed
	}
	d.pending[c] = struct{}{}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.pending, c)
		d.mu.Unlock()
	}()
	if err := c.SetDeadline(time.Now().Add(joinTime)); err != nil {
		return err
	}
	var b [joinSize]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	token, number, total, err := parseJoin(b[:])
	if err != nil {
		return err
	}
	o, err := d.reserve(c, token, number, total)
	if err != nil {
		return err
	}
	// The answer is sent before the connection is shared, so that it is the first message on it.
	if _, err = c.Write([]byte{1}); err == nil {
		err = c.SetDeadline(time.Time{})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		o.list[number] = nil
		return err
	}
	if o.have++; o.have == total {
		delete(d.offers, token)
		close(o.done)
	}
	return nil
}

// reserve assigns a connection its place among the stripes of an offer.
func (d *Listener) reserve(c net.Conn, token [tokenSize]byte, number, total int) (*Offer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.offers[token]
	if o == nil || o.list != nil && (len(o.list) != total || o.list[number] != nil) {
		return nil, errors.New("staging: unknown token or stripe")
	}
	if o.list == nil {
		o.list = make([]net.Conn, total)
	}
	o.list[number] = c
	return o, nil
}

// parseJoin parses the first message of a connection.
func parseJoin(b []byte) (token [tokenSize]byte, number, total int, err error) {
	if len(b) != joinSize || string(b[:len(magic)]) != magic {
		return token, 0, 0, errors.New("staging: invalid first message of a stripe")
	}
	copy(token[:], b[len(magic):])
	number, total = int(b[joinSize-2]), int(b[joinSize-1])
	if number >= total || total > MaxStripes {
		return token, 0, 0, fmt.Errorf("staging: invalid stripe %d of %d", number, total)
	}
	return token, number, total, nil
}

// Offer creates a token for the stripes of one comm.
func (d *Listener) Offer() *Offer {
	o := &Offer{door: d, done: make(chan struct{})}
	_, _ = rand.Read(o.token[:])
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.offers[o.token] = o
	}
	return o
}

// Token returns the token for the other end.
func (o *Offer) Token() []byte { return o.token[:] }

// Take returns the stripes, which the other end has reported as complete, and ends the offer.
func (o *Offer) Take(ctx context.Context) ([]net.Conn, error) {
	select {
	case <-o.done:
		return o.list, nil
	case <-ctx.Done():
		o.Withdraw()
		return nil, context.Cause(ctx)
	}
}

// Withdraw ends the offer and closes its stripes.
func (o *Offer) Withdraw() {
	o.door.mu.Lock()
	delete(o.door.offers, o.token)
	list := o.list
	o.door.mu.Unlock()
	closeAll(list)
}

// Join dials the stripes of a comm at the other end's listener.
func Join(ctx context.Context, address string, token []byte, total int) ([]net.Conn, error) {
	if len(token) != tokenSize || total < 1 || total > MaxStripes {
		return nil, fmt.Errorf("staging: %d stripes, token of %d bytes", total, len(token))
	}
	list, errs := make([]net.Conn, total), make([]error, total)
	var dialed sync.WaitGroup
	for i := range list {
		dialed.Go(func() { list[i], errs[i] = joinOne(ctx, address, token, i, total) })
	}
	dialed.Wait()
	if err := errors.Join(errs...); err != nil {
		closeAll(list)
		return nil, err
	}
	return list, nil
}

func joinOne(ctx context.Context, address string, token []byte, number, total int) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	b := append(append([]byte(magic), token...), byte(number), byte(total))
	_, err = c.Write(b)
	if err == nil {
		_, err = io.ReadFull(c, b[:1])
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
