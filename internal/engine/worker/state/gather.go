package state

import "slices"

// transfers tracks the transfers in progress and their limits.
type transfers struct {
	limits   *Config
	inFlight int
	bytes    int64
	total    uint64 // transfers since the start
	scratch  []candidate
}

// begin records the start of a transfer from a peer.
func (tr *transfers) begin(p *Peer) {
	p.flying = true
	tr.inFlight++
	tr.total++
	tr.bytes += p.inBytes
}

// end records the end of the transfer from a peer.
func (tr *transfers) end(p *Peer) {
	p.flying = false
	tr.inFlight--
	tr.bytes -= p.inBytes
	p.inBytes = 0
}

// throttled reports whether no other transfer may be started now.
func (tr *transfers) throttled() bool {
	return tr.bytes >= tr.limits.IncomingBytes || tr.inFlight >= tr.limits.IncomingCount &&
		tr.bytes >= tr.limits.IncomingThrottle
}

// candidate is a peer from which data can be fetched, with its sort key.
type candidate struct {
	peer   *Peer
	top    *Task
	needed int
	tie    uint64
}

// compare orders peers: first by the most urgent task, then those on this host, then by the number of needed keys. Ties
// are broken by a number that differs between workers, so that they do not all use the same peer.
func (c candidate) compare(d candidate) int {
	switch {
	case c.top != d.top && c.top.before(d.top):
		return -1
	case c.top != d.top && d.top.before(c.top):
		return 1
	case c.peer.remote != d.peer.remote:
		if d.peer.remote {
			return -1
		}
		return 1
	case c.needed != d.needed:
		return d.needed - c.needed
	case c.tie < d.tie:
		return -1
	}
	return 1
}

// candidate returns the current sort key of a peer.
func (tr *transfers) candidate(p *Peer) candidate {
	z := p.hash + tr.total*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	return candidate{p, p.needed.top(), p.needed.len(), z ^ z>>27}
}

// ensureCommunicating starts transfers while there are keys to fetch and peers to fetch them from. It runs after all
// other effects of an event, so that one transfer includes many keys.
func (s *State) ensureCommunicating() {
	if !s.running || len(s.peers.askable) == 0 || s.transfers.throttled() {
		return
	}
	queue := s.transfers.scratch[:0]
	for _, p := range s.peers.askable {
		queue = append(queue, s.transfers.candidate(p))
	}
	if len(queue) > 1 {
		slices.SortFunc(queue, candidate.compare)
	}
	for i := 0; i < len(queue); i++ {
		c := queue[i]
		switch n := c.peer.needed.len(); {
		case n == 0: // a better peer has all of it
			continue
		case n != c.needed: // a better peer has some of it
			c.top, c.needed = c.peer.needed.top(), n
			j, _ := slices.BinarySearchFunc(queue[i+1:], c, candidate.compare)
			copy(queue[i:], queue[i+1:i+1+j])
			queue[i+j] = c
			if j > 0 {
				i-- // continue with the peer that is here now
				continue
			}
		}
		if !gather(s, c.peer) || s.transfers.throttled() {
			break
		}
	}
	clear(queue)
	s.transfers.scratch = queue[:0]
}

// gather starts a transfer of the most urgent keys that a peer has, as many as fit into one message. It reports whether
// any fitted.
func gather(s *State, p *Peer) bool {
	p.inFlight, p.inBytes = p.inFlight[:0], 0
	for p.needed.len() > 0 {
		t := p.needed.top()
		size := s.transfers.size(t)
		if s.transfers.exceeds(p, size, p.inBytes, len(p.inFlight)) {
			break
		}
		p.inFlight = append(p.inFlight, t)
		p.inBytes += size
		t.done = false
		s.transition(t, Flight)
		t.comingFrom = p
	}
	if len(p.inFlight) == 0 {
		return false
	}
	s.transfers.begin(p)
	s.peers.updateAskable(p)
	a := s.out.add(DoGather)
	a.Peer, a.Tasks, a.NBytes, a.Stimulus = p, s.out.keep(p.inFlight), p.inBytes, s.ev.stimulus()
	return true
}

// size returns the assumed size of a key in a transfer.
func (tr *transfers) size(t *Task) int64 {
	if t.nbytes < 0 {
		return tr.limits.DefaultSize
	}
	return t.nbytes
}

// exceeds reports whether a key of some size would exceed the limits of a message that already has n keys and message
// bytes. Without other transfers, one key is always allowed.
func (tr *transfers) exceeds(p *Peer, size, message int64, n int) bool {
	if n == 0 {
		return tr.bytes > 0 && size > tr.limits.IncomingBytes-tr.bytes
	}
	limit := tr.limits.MessageBytes
	if p.device {
		limit = tr.limits.DeviceMessageBytes
	}
	return size > min(tr.limits.IncomingBytes-tr.bytes, limit)-message
}

// endTransfer ends the transfer from a peer and returns the requested tasks; nil if there was none.
func endTransfer(s *State, address string) (*Peer, []*Task) {
	p := s.peers.byAddress[address]
	if p == nil || !p.flying {
		return nil, nil
	}
	s.transfers.end(p)
	for _, t := range p.inFlight {
		t.done = true
	}
	s.peers.updateAskable(p)
	return p, p.inFlight
}

// endWithout ends the transfer of a task without its value.
func endWithout(s *State, t *Task, finish TaskState) {
	t.comingFrom = nil
	if t.scattered {
		finish = Memory
	}
	s.recommend(t, finish)
}

func (ev *GatherSuccess) apply(s *State) {
	p, tasks := endTransfer(s, ev.Peer)
	if p != nil {
		p.device = ev.Device
	}
	for i := range ev.Data {
		d := &ev.Data[i]
		t := s.tasks.Get(d.Key)
		if p == nil || t == nil || t.comingFrom != p {
			dropStale(s, d, t)
			continue
		}
		t.stored, t.nbytes, t.typeName = true, d.NBytes, d.TypeName
		t.comingFrom = nil
		s.recommend(t, Memory)
	}
	for _, t := range tasks {
		if t.comingFrom != p {
			continue
		}
		if slot := t.holderOf(p); slot >= 0 {
			s.peers.removeHolder(t, slot)
		}
		endWithout(s, t, Fetch)
	}
}

func (ev *GatherBusy) apply(s *State) {
	p, tasks := endTransfer(s, ev.Peer)
	if p == nil {
		return
	}
	p.busy = true
	s.peers.updateAskable(p)
	stuck := s.taskScratch[:0]
	for _, t := range tasks {
		endWithout(s, t, Fetch)
		if t.state == Flight && !slices.ContainsFunc(t.whoHas, func(h holder) bool { return !h.peer.busy }) {
			stuck = append(stuck, t)
		}
	}
	a := s.out.add(DoRetryBusy)
	a.Peer, a.After, a.Stimulus = p, s.cfg.BusyRetry, ev.Stimulus
	s.requestRefresh(stuck)
	clear(stuck)
	s.taskScratch = stuck[:0]
}

func (ev *GatherNetworkFailure) apply(s *State) {
	p, tasks := endTransfer(s, ev.Peer)
	if p == nil {
		return
	}
	for _, t := range tasks {
		endWithout(s, t, Fetch)
	}
	losePeer(s, p)
}

// apply fails the tasks that wait for data that cannot be read.
func (ev *GatherFailure) apply(s *State) {
	_, tasks := endTransfer(s, ev.Peer)
	for _, t := range tasks {
		if t.state != Flight || t.scattered {
			endWithout(s, t, Erred)
			continue
		}
		for i := len(t.dependents) - 1; i >= 0; i-- { // tasks that fail leave the list
			b := t.dependents[i]
			if u := b.task; u.state == Waiting && u.deps[b.slot].waiting {
				u.failure = ev.Failure
				s.transition(u, Erred)
			}
		}
		endWithout(s, t, Released)
	}
}

// losePeer removes all holdings of a peer. A transfer from it ends separately.
func losePeer(s *State, p *Peer) {
	for n := len(p.has); n > 0; n = len(p.has) {
		t := p.has[n-1].task
		s.peers.removeHolder(t, p.has[n-1].slot)
		if t.state == Fetch && len(t.whoHas) == 0 {
			s.recommend(t, Missing)
		}
	}
	p.busy = false
	s.peers.updateAskable(p)
	s.peers.drop(p)
}

func (ev *RetryBusy) apply(s *State) {
	if p := s.peers.byAddress[ev.Peer]; p != nil {
		p.busy = false
		s.peers.updateAskable(p)
		s.peers.drop(p)
	}
}

func (ev *RemovePeer) apply(s *State) {
	if p := s.peers.byAddress[ev.Peer]; p != nil {
		losePeer(s, p)
	}
}

func (*FindMissing) apply(s *State) { s.requestRefresh(s.missing.tasks) }
