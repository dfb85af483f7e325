package ucx

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/netif"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/ucp"
)

// Endpoint is a connection to one peer. It is safe for any number of goroutines.
type Endpoint struct {
	w    *Worker
	id   uint64
	c    *ucp.EP        // owner: token holder; freed when nobody can name this Endpoint any more
	h    unsafe.Pointer // ucp_ep_h, the key in Worker.handles; guarded by Worker.mu
	peer string
	kind endpointKind
	line *lifeline // nil for endpoints that rely on UCX to notice death

	handshake atomic.Pointer[Request] // first flush of an endpoint with a socket address: done when it is connected
	born      time.Time               // of those

	done  chan struct{} // closed when the endpoint has failed or was closed
	mu    sync.Mutex    // guards the fields below
	state epstate.State
	err   error // why it failed; nil while alive and after a Close of this side
	rkeys map[*RemoteKey]struct{}
	parts []endpointPart

	frames atomic.Pointer[frameConn] // messages of frames; made at first use
	ucxx   atomic.Pointer[ucxxBox]   // UCXX's active messages; made at first use

	closeOnce   sync.Once
	closeErr    error
	giveBackErr error // of the close of the UCX endpoint; owner: closeOnce
}

type endpointKind int

const (
	byAddress endpointKind = iota
	bySockaddr
	accepted
	borrowed
)

func (ep *Endpoint) native() *ucp.EP {
	if ep == nil {
		return nil
	}
	return ep.c
}

// EndpointConfig configures an endpoint made from worker address bytes or a socket address.
type EndpointConfig struct {
	Errors *ErrorMode // default: the worker's
	Name   string     // how errors name the peer; default: its address
	Local  string     // local IP address to connect from (socket addresses only)
}

func (c *EndpointConfig) mode(w *Worker) ErrorMode {
	if c != nil && c.Errors != nil {
		return *c.Errors
	}
	return w.cfg.Errors
}

// Connect makes an endpoint from the bytes of a peer's worker address: no IP
// address, no listener. Exchange addresses by any means (see [WorkerAddress]).
// Creation does not wait for the peer; the first operations do. Such an endpoint
// notices a dead peer by UCX's keepalive only; [Worker.Dial] notices at once.
func (w *Worker) Connect(addr WorkerAddress, cfg *EndpointConfig) (*Endpoint, error) {
	p := w.peers.pairing(addr.owner())
	if err := p.take(background); err != nil { // at most one handshake long
		return nil, err
	}
	defer p.give()
	return p.makeOne(func() (*Endpoint, error) { return w.peers.connect(addr, cfg, nil) })
}

func describe(ep *Endpoint) obs.Endpoint {
	return obs.Endpoint{Worker: ep.w.name(), ID: ep.id, Peer: ep.peer}
}

// Worker returns the endpoint's worker.
func (ep *Endpoint) Worker() *Worker { return ep.w }

// Peer returns how errors name the peer.
func (ep *Endpoint) Peer() string { return ep.peer }

// Done returns a channel that is closed when the endpoint has failed or was closed.
func (ep *Endpoint) Done() <-chan struct{} { return ep.done }

// Err returns why the endpoint failed. It is nil while the endpoint is open, and after a Close of this side that ended
// without an error: Done reports the end of an endpoint, whatever the cause.
func (ep *Endpoint) Err() error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.err
}

// Flush waits until all operations started on the endpoint are complete at the peer.
func (ep *Endpoint) Flush(ctx context.Context) error {
	s, r, err := ep.w.prepare(ucp.OpEPFlush, ep)
	if err != nil {
		return err
	}
	return r.finishBlocking(ctx, s)
}

// StartFlush is Flush as a Request.
func (ep *Endpoint) StartFlush() *Request { return ep.w.startPlain(ucp.OpEPFlush, ep) }

// Transport is what UCX moves an endpoint's bytes with: one of its transports on one device.
type Transport struct {
	Name   string // posix, sysv, cma, tcp, rc_mlx5, cuda_ipc, …
	Device string // memory, eth0, mlx5_0:1, …
}

// String returns "name/device".
func (t Transport) String() string { return t.Name + "/" + t.Device }

// Transports returns the transports that the endpoint uses. Before the first message has gone
// through UCX may still list those of its wire-up. With UCX before 1.14, which cannot be
// asked, the answer is read from its printed description.
func (ep *Endpoint) Transports() ([]Transport, error) {
	lanes, _, _, err := ep.query()
	return lanes, err
}

func (ep *Endpoint) query() (lanes []Transport, local, remote netip.AddrPort, err error) {
	const room = 8192
	buf := ucp.Malloc(room)
	defer ucp.FreeMemory(buf)
	can := uint64(0)
	if ep.w.ctx.lib.AtLeast(1, 14) {
		can = 1
	}
	if e := ep.reason(); e != nil {
		return nil, local, remote, &OpError{Op: "endpoint query", Peer: ep.peer, Err: e}
	}
	err = ep.w.drv.call("endpoint query", ucp.CallEPQuery, func(s *ucp.Slot) {
		s.Buf, s.Hdr, s.HdrLen = uintptr(unsafe.Pointer(ep.c)), uintptr(buf), room
		s.Arg[0] = can
	}, func(s *ucp.Slot) {
		local, _ = netif.ParseSockaddr(s.Inline[:128])
		remote, _ = netif.ParseSockaddr(s.Inline[128:256])
	})
	runtime.KeepAlive(ep)
	if err != nil {
		return nil, local, remote, err
	}
	if can == 0 {
		text, err := ep.Info()
		return parseLanes(text), local, remote, err
	}
	for line := range strings.Lines(cString(unsafe.Slice((*byte)(buf), room))) {
		tl, dev, _ := strings.Cut(strings.TrimSpace(line), "/")
		lanes = append(lanes, Transport{tl, dev})
	}
	return lanes, local, remote, nil
}

// parseLanes reads lanes from UCX's description: "lane[0]:  2:posix/memory.0 md[1] …".
func parseLanes(text string) []Transport {
	var lanes []Transport
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, "lane[")
		if !ok {
			continue
		}
		for f := range strings.FieldsSeq(rest) {
			_, name, ok := strings.Cut(f, ":")
			if tl, dev, isLane := strings.Cut(name, "/"); ok && isLane && tl != "" {
				if i := strings.LastIndexByte(dev, '.'); i > 0 {
					dev = dev[:i]
				}
				lanes = append(lanes, Transport{tl, dev})
				break
			}
		}
	}
	return lanes
}

// Info returns UCX's description of the endpoint.
func (ep *Endpoint) Info() (string, error) {
	if e := ep.reason(); e != nil {
		return "", &OpError{Op: "endpoint info", Peer: ep.peer, Err: e}
	}
	var text string
	err := ep.w.drv.call("endpoint info", ucp.CallEPText, func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(ep.c)) },
		func(s *ucp.Slot) { text = ucp.TakeText(s.RTag) })
	runtime.KeepAlive(ep)
	return text, err
}

// LocalAddr returns the local socket address of an endpoint that was made with one.
func (ep *Endpoint) LocalAddr() net.Addr {
	if ep.line != nil {
		return ep.line.conn.LocalAddr()
	}
	_, local, _, _ := ep.query()
	return tcpAddr(local)
}

// RemoteAddr returns the peer's socket address of an endpoint that was made with one.
func (ep *Endpoint) RemoteAddr() net.Addr {
	if ep.line != nil {
		return ep.line.conn.RemoteAddr()
	}
	_, _, remote, _ := ep.query()
	return tcpAddr(remote)
}

func tcpAddr(a netip.AddrPort) net.Addr {
	if !a.IsValid() {
		return nil
	}
	return net.TCPAddrFromAddrPort(a)
}

// EstimateTime returns UCX's estimate of how long a message of n bytes takes.
func (ep *Endpoint) EstimateTime(n int) (time.Duration, error) {
	var d time.Duration
	err := ep.w.drv.call("evaluate performance", ucp.CallPerf, func(s *ucp.Slot) {
		s.Buf, s.Len = uintptr(unsafe.Pointer(ep.c)), uint64(n)
	}, func(s *ucp.Slot) {
		d = time.Duration(*(*float64)(unsafe.Pointer(&s.Arg[0])) * float64(time.Second))
	})
	runtime.KeepAlive(ep)
	return d, err
}

func (ep *Endpoint) String() string { return fmt.Sprintf("endpoint %d to %s", ep.id, ep.peer) }

// endpointPart is what the layers above hang on an endpoint: queues of arrived messages.
type endpointPart interface {
	// ended says that nothing more will come, and why. What has arrived can still be
	// taken. The token may be held: it must not block or call into UCX.
	ended(reason error)
	// discard gives back what nobody took. The token is not held.
	discard()
}

// addPart hangs a part on the endpoint. If it has ended, the part hears of it at once.
func (ep *Endpoint) addPart(p endpointPart) {
	ep.mu.Lock()
	ep.parts = append(ep.parts, p)
	over := ep.state.Ended()
	ep.mu.Unlock()
	if over {
		p.ended(ep.reason())
	}
}

func (ep *Endpoint) discardParts() {
	ep.mu.Lock()
	parts := ep.parts
	ep.parts = nil
	ep.mu.Unlock()
	for _, p := range parts {
		p.discard()
	}
}
