package ucx

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

// Lane is one transport on one device that an endpoint uses.
type Lane struct {
	Transport string // posix, sysv, cma, tcp, rc_mlx5, cuda_ipc, …
	Device    string // memory, eth0, mlx5_0:1, …
}

// String returns "transport/device".
func (l Lane) String() string { return l.Transport + "/" + l.Device }

// Transports returns the lanes the endpoint uses. Before the first message has gone
// through UCX may still list its wire-up lanes. With UCX before 1.14, which cannot be
// asked, the answer is read from its printed description.
func (ep *Endpoint) Transports() ([]Lane, error) {
	lanes, _, _, err := ep.query()
	return lanes, err
}

func (ep *Endpoint) query() (lanes []Lane, local, remote netip.AddrPort, err error) {
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
		local, _ = parseSockaddr(s.Inline[:128])
		remote, _ = parseSockaddr(s.Inline[128:256])
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
		lanes = append(lanes, Lane{tl, dev})
	}
	return lanes, local, remote, nil
}

// parseLanes reads lanes from UCX's description: "lane[0]:  2:posix/memory.0 md[1] …".
func parseLanes(text string) []Lane {
	var lanes []Lane
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
				lanes = append(lanes, Lane{tl, dev})
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
