package sim

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"go.millstream.dev/comm"
)

// SetLink sets the properties of both directions between two hosts. Messages in flight keep their time of arrival. A
// few bytes per second simulate a slow loris.
func (n *Network) SetLink(a, b string, l Link) {
	n.SetLinkOneWay(a, b, l)
	n.SetLinkOneWay(b, a, l)
}

// SetLinkOneWay is SetLink for one direction.
func (n *Network) SetLinkOneWay(from, to string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).Link = l
	n.tracef("%s>%s is now %+v", from, to, l)
}

// Partition cuts both directions between two hosts. Nothing is lost: messages arrive after Heal, unless the connection
// ends before (Config.Timeout).
func (n *Network) Partition(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut(a, b)
	n.cut(b, a)
}

// PartitionOneWay cuts one direction.
func (n *Network) PartitionOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut(from, to)
}

// Isolate cuts a host off from all other hosts.
func (n *Network) Isolate(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range n.hostNames() {
		if name != host {
			n.cut(host, name)
			n.cut(name, host)
		}
	}
}

// Heal restores both directions between two hosts.
func (n *Network) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tracef("%s and %s are whole", a, b)
	n.link(a, b).heal()
	n.link(b, a).heal()
}

// HealAll restores all links.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tracef("all links are whole")
	names := n.hostNames()
	for _, a := range names {
		for _, b := range names {
			if l := n.links[[2]string{a, b}]; l != nil {
				l.heal()
			}
		}
	}
}

// hostNames returns the names in order, so that events do not depend on the order of a map.
func (n *Network) hostNames() []string {
	names := make([]string, 0, len(n.hosts))
	for name := range n.hosts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// between returns the connections between two hosts, sorted by name. An empty name matches all hosts.
func (n *Network) between(a, b string) []*conn {
	var found []*conn
	match := func(e *end, x, y string) bool {
		return (x == "" || e.host.name == x) && (y == "" || e.peer.host.name == y)
	}
	for c := range n.conns {
		if match(c.ends[0], a, b) || match(c.ends[1], a, b) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(x, y *conn) int { return cmp.Compare(x.ends[0].name, y.ends[0].name) })
	return found
}

func (n *Network) cut(from, to string) {
	l := n.link(from, to)
	if l.cut != 0 {
		return
	}
	l.cuts++
	l.cut = l.cuts
	n.tracef("%s>%s is cut", from, to)
	if n.cfg.Timeout < 0 {
		return
	}
	// Keepalive and user timeouts detect the cut at both ends, whatever its direction.
	generation := l.cut
	n.at(n.now()+n.cfg.Timeout, from+">"+to, func() {
		if l.cut != generation {
			return
		}
		for _, c := range n.between(from, to) {
			c.drop("connection timed out after " + n.cfg.Timeout.String())
		}
	})
}

// Drop resets all connections between two hosts and returns their number. Messages in flight are lost. An empty name
// matches all hosts.
func (n *Network) Drop(a, b string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.between(a, b)
	for _, c := range found {
		n.tracef("%s dropped", c.ends[0].name)
		c.drop("connection reset")
	}
	return len(found)
}

// DropAfter resets the connection that carries the first byte after the given number of bytes from one host to another,
// counted from now, in the middle of a message. The seed determines whether its writer gets an error.
func (n *Network) DropAfter(from, to string, bytes int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).dropAfter = max(bytes, 0)
	n.tracef("%s>%s drops after %d bytes", from, to, bytes)
}

// Refuse makes a host refuse new connections, or accept them again.
func (n *Network) Refuse(host string, refuse bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host(host).refusing = refuse
	n.tracef("%s refuses: %v", host, refuse)
}

// Stall stops a host as SIGSTOP stops a process: its reads, writes, accepts and dials wait, and messages to it are
// accepted until the window is full.
func (n *Network) Stall(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host(host).stalled = true
	n.tracef("%s is stalled", host)
}

// Resume resumes a stalled host.
func (n *Network) Resume(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(host)
	if !h.stalled {
		return
	}
	h.stalled = false
	n.tracef("%s runs again", host)
	parked := h.parked
	h.parked = nil
	for _, f := range parked {
		f()
	}
	h.wake()
}

// Kill ends the listeners and comms of a host as the end of a process does: messages that have not arrived are lost,
// and peers are notified. Until Revive it can neither listen nor dial.
func (n *Network) Kill(host string) { n.kill(host, false) }

// Crash is Kill without notification, like a power failure: peers detect it after Config.Timeout, and dials to it wait.
func (n *Network) Crash(host string) { n.kill(host, true) }

func (n *Network) kill(host string, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(host)
	if h.dead {
		return
	}
	h.dead, h.silent, h.stalled, h.parked = true, silent, false, nil
	n.tracef("%s is dead", host)
	ports := make([]int, 0, len(h.listeners))
	for port := range h.listeners {
		ports = append(ports, port)
	}
	slices.Sort(ports)
	for _, port := range ports {
		h.listeners[port].stop("host is dead")
	}
	for _, c := range n.between(host, "") {
		for _, e := range c.ends {
			if e.host != h {
				continue
			}
			if !silent {
				e.abort("host is dead")
				continue
			}
			e.empty()
			e.finish(e.closed("host is dead"))
			e.peer.loseComing()
			if n.cfg.Timeout < 0 {
				continue
			}
			p := e.peer
			n.at(n.now()+n.cfg.Timeout, e.name, func() {
				p.endByPeer(fmt.Errorf("%w: %w", p.closed("connection timed out after "+n.cfg.Timeout.String()),
					io.ErrUnexpectedEOF))
			})
		}
	}
	h.wake()
}

// Revive lets a dead host listen and dial again. Its former connections are lost.
func (n *Network) Revive(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(host)
	h.dead, h.silent = false, false
	n.tracef("%s is alive", host)
}

// HalfOpen connects from a host without sending a handshake. release closes the connection.
func (n *Network) HalfOpen(ctx context.Context, from, address string) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, _, err := parse(address); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.startDial(n.host(from), address, comm.DialConfig{}, true)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		a.over = true
		a.conn.ends[0].abort("released")
	}, nil
}

// Comms returns the number of connections with at least one open end.
func (n *Network) Comms() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}
