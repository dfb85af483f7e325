package inproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/internal/comm/limits"
)

func init() { comm.Register("inproc", Backend{}) }

// Backend is the transport of inproc://. Its addresses have Dask's form: ip/pid/number.
type Backend struct{}

// registry owns the listeners of this process.
var registry struct {
	sync.Mutex
	listeners map[string]*listener // by address without scheme
}

var (
	lastNumber atomic.Uint64
	hostIP     = sync.OnceValue(func() string { return commaddr.LocalIP("") })
)

func newLoc() string {
	return hostIP() + "/" + strconv.Itoa(os.Getpid()) + "/" + strconv.FormatUint(lastNumber.Add(1), 10)
}

// validate rejects addresses of other hosts and processes.
func validate(loc string) error {
	parts := strings.Split(loc, "/")
	if len(parts) != 3 {
		return &comm.AddressError{Address: "inproc://" + loc, Reason: "want the form inproc://ip/pid/number"}
	}
	if parts[0] != hostIP() || parts[1] != strconv.Itoa(os.Getpid()) {
		return &comm.AddressError{Address: "inproc://" + loc, Reason: fmt.Sprintf("address of another process; this "+
			"one is inproc://%s/%d", hostIP(), os.Getpid())}
	}
	return nil
}

// Encrypted returns true: no data leaves the process.
func (Backend) Encrypted() bool { return true }

// Host returns this host's address.
func (Backend) Host(loc string) (string, error) { return hostIP(), validate(loc) }

// Resolve returns the address unchanged.
func (Backend) Resolve(_ context.Context, loc string) (string, error) { return loc, nil }

// LocalFor returns a new address.
func (Backend) LocalFor(_ context.Context, loc string) (string, error) {
	if err := validate(loc); err != nil {
		return "", err
	}
	return newLoc(), nil
}

// Dial connects to a listener of this process.
func (Backend) Dial(ctx context.Context, loc string, cfg comm.DialConfig) (comm.Comm, error) {
	if err := validate(loc); err != nil {
		return nil, comm.Permanent(err)
	}
	registry.Lock()
	l := registry.listeners[loc]
	registry.Unlock()
	if l == nil {
		return nil, fmt.Errorf("comm: no listener at inproc://%s", loc)
	}
	ours, err := handshake.New(cfg.Compression, true, cfg.Invitation)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	if l.cfg.Admit != nil && !l.cfg.Admit("inproc://", cfg.Invitation) {
		return nil, comm.Permanent(errors.New("comm: invitation rejected by the listener"))
	}
	info, err := handshake.Negotiate(ours, l.hello)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	info.SameHost = true
	a, b := newPair("inproc://"+newLoc(), "inproc://"+loc)
	a.info, b.info = info, info
	select {
	case <-l.ended:
		return nil, fmt.Errorf("comm: inproc://%s: listener is closed", loc)
	default:
	}
	select {
	case l.ready <- b:
		select {
		case <-l.ended: // closed meanwhile, and may have drained ready before
			l.refuse()
			return nil, fmt.Errorf("comm: inproc://%s: listener is closed", loc)
		default:
			return a, nil
		}
	case <-l.ended:
		return nil, fmt.Errorf("comm: inproc://%s: listener is closed", loc)
	case <-ctx.Done():
		return nil, fmt.Errorf("comm: inproc://%s: not accepted in time: %w", loc, context.Cause(ctx))
	}
}

// Listen returns a listener; without an address it gets a new one.
func (Backend) Listen(_ context.Context, loc string, cfg comm.ListenConfig) (comm.Listener, error) {
	if loc == "" {
		loc = newLoc()
	} else if err := validate(loc); err != nil {
		return nil, err
	}
	hello, err := handshake.New(cfg.Compression, true, nil)
	if err != nil {
		return nil, err
	}
	l := &listener{
		loc: loc, cfg: cfg, hello: hello,
		ready: make(chan *conn, limits.Fill(cfg.Limits).Pending), ended: make(chan struct{}),
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.listeners[loc] != nil {
		return nil, &comm.AddressError{Address: "inproc://" + loc, Reason: "address already in use"}
	}
	if registry.listeners == nil {
		registry.listeners = make(map[string]*listener)
	}
	registry.listeners[loc] = l
	return l, nil
}

// listener queues the accepting ends of new comms.
type listener struct {
	loc   string
	cfg   comm.ListenConfig
	hello handshake.Hello
	ready chan *conn
	ended chan struct{}
	once  sync.Once
}

func (l *listener) ListenAddr() string  { return "inproc://" + l.loc }
func (l *listener) ContactAddr() string { return "inproc://" + l.loc }

func (l *listener) Accept(ctx context.Context) (comm.Comm, error) {
	select {
	case <-l.ended:
	default:
		select {
		case c := <-l.ready:
			return c, nil
		case <-l.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	l.refuse()
	return nil, fmt.Errorf("%w: accept on inproc://%s: the listener is closed", comm.ErrClosed, l.loc)
}

// refuse ends the comms that will not be accepted.
func (l *listener) refuse() {
	for {
		select {
		case c := <-l.ready:
			c.Abort()
		default:
			return
		}
	}
}

// Close stops listening. Comms that were not accepted end.
func (l *listener) Close() error {
	l.once.Do(func() {
		registry.Lock()
		delete(registry.listeners, l.loc)
		registry.Unlock()
		close(l.ended)
		l.refuse()
	})
	return nil
}
