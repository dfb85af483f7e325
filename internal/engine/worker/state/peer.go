package state

import "strings"

// Peer is another worker from which data can be fetched. It is owned by the state.
type Peer struct {
	address string
	host    string
	remote  bool // on another host
	hash    uint64

	// has are the known tasks that the peer holds.
	has []peerTask
	// needed are those of them that are to be fetched.
	needed heap
	// pos is the index in peerSet.askable, -1 if nothing is needed from the peer or it is busy.
	pos int32
	// flying indicates a transfer in progress, of the tasks inFlight, inBytes together.
	flying   bool
	inFlight []*Task
	inBytes  int64
	busy     bool
	device   bool // its last data was moved from GPU to GPU
	mark     uint32
}

type peerTask struct {
	task *Task
	slot int32 // index in task.whoHas
}

// Address returns the address of the peer. It may be kept.
func (p *Peer) Address() string { return p.address }

// Local reports whether the peer is on the same host.
func (p *Peer) Local() bool { return !p.remote }

// Busy reports whether the peer has just rejected a transfer.
func (p *Peer) Busy() bool { return p.busy }

// InFlight returns the number of keys that are being fetched from the peer.
func (p *Peer) InFlight() int { return len(p.inFlight) }

// peerSet is the set of known peers, and of those from which data can be fetched now.
type peerSet struct {
	address, host string // of this worker
	byAddress     map[string]*Peer
	askable       []*Peer // have needed data, are not busy and have no transfer
	mark          uint32
	scratch       []*Peer
}

// get returns the peer with an address, which it creates if necessary. A new address is copied.
func (ps *peerSet) get(address string) *Peer {
	if p := ps.byAddress[address]; p != nil {
		return p
	}
	p := &Peer{address: strings.Clone(address), pos: -1}
	p.host = hostOf(p.address)
	p.remote = p.host != ps.host
	p.hash = 14695981039346656037
	for _, text := range []string{ps.address, p.address} {
		for i := range len(text) {
			p.hash = (p.hash ^ uint64(text[i])) * 1099511628211
		}
	}
	ps.byAddress[p.address] = p
	return p
}

// drop removes a peer to which there are no references.
func (ps *peerSet) drop(p *Peer) {
	if len(p.has) == 0 && !p.flying && !p.busy {
		delete(ps.byAddress, p.address)
	}
}

// hostOf returns the part of an address that identifies the machine. Addresses of one process (inproc) have the same
// host.
func hostOf(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		rest = address
	} else if scheme == "inproc" {
		host, _, _ := strings.Cut(rest, "/")
		return host
	}
	if strings.HasPrefix(rest, "[") {
		if end := strings.IndexByte(rest, ']'); end > 0 {
			return rest[1:end]
		}
	}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		return rest[:i]
	}
	return rest
}

// addHolder adds a peer to the holders of a task.
func (ps *peerSet) addHolder(t *Task, p *Peer) {
	slot := int32(len(t.whoHas))
	t.whoHas = append(t.whoHas, holder{p, int32(len(p.has)), -1})
	p.has = append(p.has, peerTask{t, slot})
	if t.state == Fetch {
		ps.addNeeded(t, slot)
	}
}

// removeHolder is the inverse of addHolder.
func (ps *peerSet) removeHolder(t *Task, slot int32) {
	h := t.whoHas[slot]
	if h.heap >= 0 {
		ps.removeNeeded(t, slot)
	}
	last := int32(len(h.peer.has) - 1)
	if h.has != last {
		moved := h.peer.has[last]
		h.peer.has[h.has] = moved
		moved.task.whoHas[moved.slot].has = h.has
	}
	h.peer.has[last] = peerTask{}
	h.peer.has = h.peer.has[:last]

	end := int32(len(t.whoHas) - 1)
	if slot != end {
		moved := t.whoHas[end]
		t.whoHas[slot] = moved
		moved.peer.has[moved.has].slot = slot
		if moved.heap >= 0 {
			moved.peer.needed.entries[moved.heap].slot = slot
		}
	}
	t.whoHas[end] = holder{}
	t.whoHas = t.whoHas[:end]
}

// removeHolders removes all holders of a task.
func (ps *peerSet) removeHolders(t *Task) {
	for i := int32(len(t.whoHas)) - 1; i >= 0; i-- {
		ps.removeHolder(t, i)
	}
}

// holderOf returns the slot of a peer among the holders of a task, or -1.
func (t *Task) holderOf(p *Peer) int32 {
	for i := range t.whoHas {
		if t.whoHas[i].peer == p {
			return int32(i)
		}
	}
	return -1
}

// setHolders sets the holders of a task to those at the addresses, without the worker itself, and reports whether the
// worker was one of them.
func (ps *peerSet) setHolders(t *Task, addresses []string) (self bool) {
	ps.mark += 2
	wanted, there := ps.mark, ps.mark+1
	peers := ps.scratch[:0]
	for _, a := range addresses {
		if a == ps.address {
			self = true
			continue
		}
		p := ps.get(a)
		p.mark = wanted
		peers = append(peers, p)
	}
	for i := int32(len(t.whoHas)) - 1; i >= 0; i-- {
		if p := t.whoHas[i].peer; p.mark == wanted {
			p.mark = there
		} else {
			ps.removeHolder(t, i)
		}
	}
	for _, p := range peers {
		if p.mark == wanted {
			p.mark = there
			ps.addHolder(t, p)
		}
	}
	clear(peers)
	ps.scratch = peers[:0]
	return self
}

// addNeeded adds a task to the heap of one of its holders.
func (ps *peerSet) addNeeded(t *Task, slot int32) {
	p := t.whoHas[slot].peer
	p.needed.push(t, slot)
	ps.updateAskable(p)
}

// removeNeeded removes a task from the heap of one of its holders.
func (ps *peerSet) removeNeeded(t *Task, slot int32) {
	h := &t.whoHas[slot]
	h.peer.needed.remove(int(h.heap))
	h.heap = -1
	ps.updateAskable(h.peer)
}

// removeAllNeeded removes a task from the heaps of all its holders.
func (ps *peerSet) removeAllNeeded(t *Task) {
	for i := range t.whoHas {
		if t.whoHas[i].heap >= 0 {
			ps.removeNeeded(t, int32(i))
		}
	}
}

// updateAskable adds a peer to the list of those from which data can be fetched, or removes it.
func (ps *peerSet) updateAskable(p *Peer) {
	can := p.needed.len() > 0 && !p.flying && !p.busy
	switch {
	case can && p.pos < 0:
		p.pos = int32(len(ps.askable))
		ps.askable = append(ps.askable, p)
	case !can && p.pos >= 0:
		last := int32(len(ps.askable) - 1)
		moved := ps.askable[last]
		ps.askable[p.pos] = moved
		moved.pos = p.pos
		ps.askable[last] = nil
		ps.askable = ps.askable[:last]
		p.pos = -1
	}
}
