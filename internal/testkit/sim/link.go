package sim

import "time"

// link is one direction between two hosts. The mu of the network guards it.
type link struct {
	net      *Network
	from, to string
	Link
	cut  int           // number of the current cut, 0 without one
	cuts int           // number of cuts so far
	free time.Duration // when the link is free again

	// dropAfter resets the connection that carries the byte with this number, counted from now; negative for none.
	dropAfter int64

	held []*parcel // parcels that arrived during the cut
}

// parcel is a message or a control packet on a link.
type parcel struct {
	name    string // direction of its connection
	order   *order
	arrive  func()
	expired func() bool // reports whether the parcel is no longer needed
	here    bool
}

// order keeps arrivals of one direction of a connection in the order of sending, also if a cut delayed some of them.
type order struct {
	last    time.Duration
	count   uint64
	parcels []*parcel // in flight
}

// deliver delivers parcels that have arrived, up to the first one that has not.
func (o *order) deliver() {
	for len(o.parcels) > 0 && o.parcels[0].here {
		p := o.parcels[0]
		o.parcels[0] = nil
		o.parcels = o.parcels[1:]
		if !p.expired() {
			p.arrive()
		}
	}
}

func (n *Network) link(from, to string) *link {
	key := [2]string{from, to}
	l := n.links[key]
	if l == nil {
		l = &link{net: n, from: from, to: to, Link: n.cfg.Link, dropAfter: -1}
		n.links[key] = l
	}
	return l
}

// send sends size bytes over the link and calls p.arrive, with mu held, when they arrive. It returns when the first and
// the last byte arrive, as known now.
func (l *link) send(size int64, p parcel) (first, last time.Duration) {
	n := l.net
	begin := max(n.now(), l.free)
	end := begin
	if l.Bandwidth > 0 {
		end += time.Duration(float64(size) / float64(l.Bandwidth) * float64(time.Second))
		l.free = end
	}
	delay := l.delay(&p)
	last = max(end+delay, p.order.last)
	p.order.last = last
	p.order.parcels = append(p.order.parcels, &p)
	l.fly(last, &p)
	return begin + delay, last
}

func (l *link) delay(p *parcel) time.Duration {
	d := l.Latency
	p.order.count++
	if l.Jitter > 0 {
		d += time.Duration(l.net.chance("jitter "+p.name, p.order.count) % uint64(l.Jitter+1))
	}
	return d
}

// fly delivers a parcel when it is due, or holds it during a cut.
func (l *link) fly(due time.Duration, p *parcel) {
	l.net.at(due, p.name, func() {
		if l.cut != 0 {
			l.held = append(l.held, p)
			return
		}
		p.here = true
		p.order.deliver()
	})
}

// heal releases the parcels that the cut has held.
func (l *link) heal() {
	if l.cut == 0 {
		return
	}
	l.cut = 0
	held := l.held
	l.held = nil
	now := l.net.now()
	for _, p := range held {
		p.order.last = max(now+l.delay(p), p.order.last)
		l.fly(p.order.last, p)
	}
}

// takeDrop counts size bytes against dropAfter and reports whether the connection drops within them.
func (l *link) takeDrop(size int64) bool {
	if l.dropAfter < 0 {
		return false
	}
	if l.dropAfter < size {
		l.dropAfter = -1
		return true
	}
	l.dropAfter -= size
	return false
}
