package state

import "strings"

// Peer is another worker that data can be fetched from. It belongs to the state.
type Peer struct {
	address string
	host    string
	remote  bool // on another host
	hash    uint64

	// has are the tasks that it is known to hold, as far as they are known here.
	has []peerTask
	// needed are those of them that are to be fetched.
	needed heap
	// pos is its place in State.askable, -1 if nothing is needed from it or it cannot be asked.
	pos int32
	// flying: a transfer is under way, of the tasks inFlight, inBytes together.
	flying   bool
	inFlight []*Task
	inBytes  int64
	busy     bool
	device   bool // its last data went from GPU to GPU
	mark     uint32
}

type peerTask struct {
	task *Task
	slot int32 // index in task.whoHas
}

// Address is the peer's. It may be kept.
func (p *Peer) Address() string { return p.address }

// Local tells that it is on the same host.
func (p *Peer) Local() bool { return !p.remote }

// Busy tells that it had no room for a transfer a moment ago.
func (p *Peer) Busy() bool { return p.busy }

// InFlight is how many keys are being fetched from it.
func (p *Peer) InFlight() int { return len(p.inFlight) }

// peer finds or makes a peer. The address is copied when it is new.
func (s *State) peer(address string) *Peer {
	if p := s.peers[address]; p != nil {
		return p
	}
	p := &Peer{address: strings.Clone(address), pos: -1}
	p.host = hostOf(p.address)
	p.remote = p.host != s.host
	p.hash = 14695981039346656037
	for _, text := range []string{s.cfg.Address, p.address} {
		for i := range len(text) {
			p.hash = (p.hash ^ uint64(text[i])) * 1099511628211
		}
	}
	s.peers[p.address] = p
	return p
}

// dropPeer forgets a peer that nothing points to.
func (s *State) dropPeer(p *Peer) {
	if len(p.has) == 0 && !p.flying && !p.busy {
		delete(s.peers, p.address)
	}
}

// hostOf is the part of an address that says which machine it is. Addresses of the same
// process (inproc) all are on one host.
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

// addHolder notes that a peer has a task's value.
func (s *State) addHolder(t *Task, p *Peer) {
	slot := int32(len(t.whoHas))
	t.whoHas = append(t.whoHas, holder{p, int32(len(p.has)), -1})
	p.has = append(p.has, peerTask{t, slot})
	if t.state == Fetch {
		s.need(t, slot)
	}
}

// removeHolder is the opposite of addHolder.
func (s *State) removeHolder(t *Task, slot int32) {
	h := t.whoHas[slot]
	if h.heap >= 0 {
		s.unneed(t, slot)
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

func (s *State) removeHolders(t *Task) {
	for i := int32(len(t.whoHas)) - 1; i >= 0; i-- {
		s.removeHolder(t, i)
	}
}

// holderOf is the slot of a peer among the holders of a task, or -1.
func (t *Task) holderOf(p *Peer) int32 {
	for i := range t.whoHas {
		if t.whoHas[i].peer == p {
			return int32(i)
		}
	}
	return -1
}

// setHolders makes the holders of a task those at the addresses, without the worker itself,
// and reports whether that was one of them.
func (s *State) setHolders(t *Task, addresses []string) (self bool) {
	s.mark += 2
	wanted, there := s.mark, s.mark+1
	peers := s.peerScratch[:0]
	for _, a := range addresses {
		if a == s.cfg.Address {
			self = true
			continue
		}
		p := s.peer(a)
		p.mark = wanted
		peers = append(peers, p)
	}
	for i := int32(len(t.whoHas)) - 1; i >= 0; i-- {
		if p := t.whoHas[i].peer; p.mark == wanted {
			p.mark = there
		} else {
			s.removeHolder(t, i)
		}
	}
	for _, p := range peers {
		if p.mark == wanted {
			p.mark = there
			s.addHolder(t, p)
		}
	}
	clear(peers)
	s.peerScratch = peers[:0]
	return self
}

// need and unneed put a task into the heap of one of its holders and take it out.
func (s *State) need(t *Task, slot int32) {
	p := t.whoHas[slot].peer
	p.needed.push(t, slot)
	s.enlist(p)
}

func (s *State) unneed(t *Task, slot int32) {
	h := &t.whoHas[slot]
	h.peer.needed.remove(int(h.heap))
	h.heap = -1
	s.enlist(h.peer)
}

// unneedAll takes a task out of the heaps of all its holders.
func (s *State) unneedAll(t *Task) {
	for i := range t.whoHas {
		if t.whoHas[i].heap >= 0 {
			s.unneed(t, int32(i))
		}
	}
}

// enlist puts a peer into the list of those that can be asked for something, or takes it out.
func (s *State) enlist(p *Peer) {
	can := p.needed.len() > 0 && !p.flying && !p.busy
	switch {
	case can && p.pos < 0:
		p.pos = int32(len(s.askable))
		s.askable = append(s.askable, p)
	case !can && p.pos >= 0:
		last := int32(len(s.askable) - 1)
		moved := s.askable[last]
		s.askable[p.pos] = moved
		moved.pos = p.pos
		s.askable[last] = nil
		s.askable = s.askable[:last]
		p.pos = -1
	}
}
