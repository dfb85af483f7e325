package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/internal/comm/limits"
)

// listener accepts connections. The mu of the network guards it.
type listener struct {
	net     *Network
	host    *Host
	port    int
	cfg     comm.ListenConfig
	queue   []*end
	pending []*end // handshakes in progress, oldest first
	err     error
	changed chan struct{}
}

var _ comm.Listener = (*listener)(nil)

// parse splits sim://host:port.
func parse(address string) (host string, port int, err error) {
	rest, ok := strings.CutPrefix(address, "sim://")
	if !ok {
		return "", 0, fmt.Errorf("sim: address %q does not start with sim://", address)
	}
	host, digits, err := net.SplitHostPort(rest)
	if err != nil || host == "" || strings.ContainsAny(host, ":/") {
		return "", 0, fmt.Errorf("sim: address %q is not of the form sim://host:port", address)
	}
	port, err = strconv.Atoi(digits)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("sim: address %q has invalid port %q: want 0 to 65535", address, digits)
	}
	return host, port, nil
}

// Listen listens on an address of this host; port 0 selects a free one.
func (h *Host) Listen(ctx context.Context, address string, cfg comm.ListenConfig) (comm.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, port, err := parse(address)
	if err != nil {
		return nil, err
	}
	if name != h.name {
		return nil, fmt.Errorf("sim: host %s cannot listen on %s, the address of another host", h.name, address)
	}
	if err := check(cfg.Compression, cfg.RequireEncryption, address); err != nil {
		return nil, err
	}
	cfg.Limits = limits.Fill(cfg.Limits)
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead {
		return nil, fmt.Errorf("sim: host %s is dead; call Revive before Listen", h.name)
	}
	if port == 0 {
		for h.listeners[h.nextPort] != nil {
			h.nextPort++
		}
		port = h.nextPort
		h.nextPort++
	}
	if h.listeners[port] != nil {
		return nil, fmt.Errorf("sim: listen %s: address already in use", address)
	}
	l := &listener{net: n, host: h, port: port, cfg: cfg, changed: make(chan struct{})}
	h.listeners[port] = l
	n.tracef("%s:%d listens", h.name, port)
	return l, nil
}

// ListenAddr returns the address of the listener.
func (l *listener) ListenAddr() string { return "sim://" + l.name() }

// ContactAddr returns the address of the listener.
func (l *listener) ContactAddr() string { return "sim://" + l.name() }

func (l *listener) name() string { return net.JoinHostPort(l.host.name, strconv.Itoa(l.port)) }

func (l *listener) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Accept waits for the next comm.
func (l *listener) Accept(ctx context.Context) (comm.Comm, error) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("sim: accept on %s: %w", l.name(), err)
		}
		if l.err != nil {
			return nil, l.err
		}
		if len(l.queue) > 0 && !l.host.stalled {
			e := l.queue[0]
			l.queue[0] = nil
			l.queue = l.queue[1:]
			return e, nil
		}
		mine, hosts := l.changed, l.host.changed
		l.net.mu.Unlock()
		select {
		case <-mine:
		case <-hosts:
		case <-ctx.Done():
		}
		l.net.mu.Lock()
	}
}

// Close stops listening. Comms that were not accepted are aborted.
func (l *listener) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.stop("closed here")
	return nil
}

func (l *listener) stop(why string) {
	if l.err != nil {
		return
	}
	l.err = fmt.Errorf("sim: listener %s: %s: %w: %w", l.name(), why, comm.ErrClosed, net.ErrClosed)
	delete(l.host.listeners, l.port)
	for _, e := range l.queue {
		e.abort("not accepted")
	}
	l.queue = nil
	l.net.tracef("%s ended: %s", l.name(), why)
	l.wake()
}

// attempt is one attempt to connect. The mu of the network guards it.
type attempt struct {
	conn *conn
	cfg  comm.DialConfig
	mute bool // sends no handshake
	end  *end // end of the dialer, once connected
	err  error
	over bool // canceled or finished
	done chan struct{}
}

func (a *attempt) finish(e *end, err error) {
	if a.over {
		return
	}
	a.over, a.end, a.err = true, e, err
	close(a.done)
}

// check rejects settings that sim does not support.
func check(compression string, encrypted bool, address string) error {
	if encrypted {
		return &comm.AddressError{Address: address, Reason: "encryption is required " +
			"(distributed.comm.require-encryption), but sim:// is not encrypted"}
	}
	_, err := handshake.New(compression, false, nil)
	return err
}

// Dial connects. Like Dask it tries again while the connection is refused, until the context or the timeout ends. Its
// pauses double from 10 ms to 1 s, without jitter.
func (h *Host) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, _, err := parse(address); err != nil {
		return nil, err
	}
	if err := check(cfg.Compression, cfg.RequireEncryption, address); err != nil {
		return nil, err
	}
	cfg.Limits = limits.Fill(cfg.Limits)
	if cfg.Timeout <= 0 {
		cfg.Timeout = comm.DefaultConnectTimeout
	}
	start := time.Now()
	within, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	fail := &comm.ConnectError{Address: address}
	for backoff := 10 * time.Millisecond; within.Err() == nil; backoff = min(2*backoff, time.Second) {
		e, err := h.try(within, address, cfg)
		if err == nil {
			return e, nil
		}
		if errors.Is(err, errRefused) {
			fail.Attempts++
			fail.Last = err
			timer := time.NewTimer(backoff)
			select {
			case <-timer.C:
			case <-within.Done():
				timer.Stop()
			}
		} else if within.Err() == nil {
			return nil, err
		}
	}
	fail.After = time.Since(start)
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("sim: dial %s: %w", address, context.Cause(ctx))
	}
	return nil, fail
}

// errRefused is retried by Dial.
var errRefused = errors.New("connection refused")

// try connects once.
func (h *Host) try(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for h.stalled {
		changed := h.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		n.mu.Lock()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("sim: dial %s: %w", address, ctx.Err())
		}
	}
	if h.dead {
		return nil, fmt.Errorf("sim: host %s is dead; call Revive before Dial", h.name)
	}
	a := n.startDial(h, address, cfg, false)
	n.mu.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	n.mu.Lock()
	a.finish(nil, fmt.Errorf("sim: dial %s: %w", address, ctx.Err())) // has no effect if the attempt has finished
	if a.err != nil {
		a.conn.ends[0].abort("dial failed: " + a.err.Error())
		return nil, a.err
	}
	return a.end, nil
}

// startDial starts a connection: a packet to the listener, one back, and one to the listener. The caller holds mu.
func (n *Network) startDial(h *Host, address string, cfg comm.DialConfig, mute bool) *attempt {
	name, port, _ := parse(address) // checked by the callers
	to := n.host(name)
	local := fmt.Sprintf("%s:%d", h.name, h.nextLocal)
	h.nextLocal++
	c := n.newConn(h, to, local, fmt.Sprintf("%s:%d", name, port))
	a := &attempt{conn: c, cfg: cfg, mute: mute, done: make(chan struct{})}
	d, e := c.ends[0], c.ends[1]
	n.tracef("%s dials", d.name)
	n.link(h.name, name).send(64, parcel{name: d.name, order: &d.order,
		expired: func() bool { return a.over },
		arrive: func() {
			l := to.listeners[port]
			switch {
			case to.dead && to.silent:
			case l == nil || to.refusing || to.dead:
				a.refuse(errRefused)
			case l.cfg.Admit != nil && !l.cfg.Admit("sim://"+h.name, cfg.Invitation):
				a.refuse(&comm.HandshakeError{Reason: "unknown invitation"})
			default:
				l.handshake(a, e)
			}
		},
	})
	return a
}

// refuse sends the refusal of the listener.
func (a *attempt) refuse(why error) {
	d, e := a.conn.ends[0], a.conn.ends[1]
	e.finish(e.closed(why.Error()))
	d.net.link(e.host.name, d.host.name).send(64, parcel{name: e.name, order: &e.order,
		expired: func() bool { return a.over },
		arrive:  func() { a.finish(nil, fmt.Errorf("sim: dial %s: %w", d.peer.addr, why)) },
	})
}

// handshake runs the handshake of the listener, as soon as the host is not stalled.
func (l *listener) handshake(a *attempt, e *end) {
	n, d := l.net, e.peer
	for len(l.pending) >= l.cfg.Limits.Pending {
		l.pending[0].abort("pushed out by a newer connection (comm.Limits.Pending)") // removes it from pending
	}
	l.pending = append(l.pending, e)
	e.onEnd = func() {
		e.onEnd = nil
		l.pending = slices.DeleteFunc(l.pending, func(x *end) bool { return x == e })
	}
	n.at(n.now()+l.cfg.Limits.HandshakeTime, e.name, func() {
		if e.onEnd != nil {
			e.abort("no handshake within " + l.cfg.Limits.HandshakeTime.String())
		}
	})
	answer := func() {
		if e.err != nil || l.err != nil {
			e.abort("listener closed")
			return
		}
		if err := e.agree(a.cfg, l.cfg); err != nil {
			a.refuse(err)
			return
		}
		n.link(e.host.name, d.host.name).send(64, parcel{name: e.name, order: &e.order,
			expired: func() bool { return a.over || d.err != nil },
			arrive: func() {
				if a.mute {
					return
				}
				a.finish(d, nil)
				n.link(d.host.name, e.host.name).send(64, parcel{name: d.name, order: &d.order,
					expired: func() bool { return e.err != nil },
					arrive: func() {
						e.onEnd()
						if l.err != nil {
							e.abort("listener closed")
							return
						}
						n.tracef("%s connected", d.name)
						l.queue = append(l.queue, e)
						l.wake()
					},
				})
			},
		})
	}
	if e.host.stalled {
		e.host.later(answer)
	} else {
		answer()
	}
}

// later runs f, with mu held, when the host resumes. It is dropped if the host dies before.
func (h *Host) later(f func()) { h.parked = append(h.parked, f) }

// agree runs the handshake of both ends.
func (e *end) agree(dial comm.DialConfig, listen comm.ListenConfig) error {
	d := e.peer
	d.limits, e.limits = dial.Limits, listen.Limits
	ours, theirs := e.host.hello(listen.Compression, d.host), d.host.hello(dial.Compression, e.host)
	var err, err2 error
	e.info, err = handshake.Negotiate(ours, theirs)
	d.info, err2 = handshake.Negotiate(theirs, ours)
	e.info.SameHost, d.info.SameHost = d.host == e.host, d.host == e.host
	return errors.Join(err, err2)
}

// hello returns the first message of a process on the host.
func (h *Host) hello(compression string, to *Host) handshake.Hello {
	hello, _ := handshake.New(compression, h == to, nil, "sim") // checked by check
	if h.python != nil {
		hello.Millstream, hello.Python = nil, slices.Clone(h.python)
	}
	return hello
}
