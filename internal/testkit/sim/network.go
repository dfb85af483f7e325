package sim

import (
	"container/heap"
	"fmt"
	"io"
	"sync"
	"time"

	"go.millstream.dev/comm"
)

// Config describes a network. The zero value is one without delay.
type Config struct {
	// Seed decides all that looks random.
	Seed uint64
	// Link is what every pair of hosts has unless SetLink says otherwise.
	Link
	// Window is how many bytes one direction of a connection holds that the peer has not
	// read, before Write waits (default 4 MiB). A larger message goes alone, and its Write
	// returns when the peer has read it.
	Window int64
	// Timeout is how long a connection survives a cut link (default 30 s, as
	// distributed.comm.timeouts.tcp does by keepalive and TCP_USER_TIMEOUT; negative: for
	// ever).
	Timeout time.Duration
	// Deterministic gives every event its own instant, at least a nanosecond after the
	// one before: see the package's text on time.
	Deterministic bool
	// Trace is written a line per event, as Network.Trace returns them; its errors are
	// ignored.
	Trace io.Writer
}

// Link is one direction between two hosts.
type Link struct {
	// Latency is the time from the last byte sent to the last byte received.
	Latency time.Duration
	// Jitter is the most that is added to the latency, by seed. Order within a connection
	// is kept.
	Jitter time.Duration
	// Bandwidth is in bytes a second, shared by the connections of the link (0: no limit).
	Bandwidth int64
}

// Network is a set of hosts and the links between them. All of its state, that of its
// hosts, listeners and comms included, is guarded by mu, which is never held while
// anything waits.
type Network struct {
	cfg   Config
	birth time.Time

	mu     sync.Mutex
	hosts  map[string]*Host
	links  map[[2]string]*link
	conns  map[*conn]struct{}
	events eventHeap
	seq    uint64
	timer  *time.Timer
	last   time.Duration // instant of the last event
	trace  trace
}

// New makes a network.
func New(cfg Config) *Network {
	if cfg.Window <= 0 {
		cfg.Window = 4 << 20
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	return &Network{
		cfg:   cfg,
		birth: time.Now(),
		hosts: map[string]*Host{},
		links: map[[2]string]*link{},
		conns: map[*conn]struct{}{},
		trace: trace{w: cfg.Trace},
		last:  -1,
	}
}

// Host returns the host of that name, which is made when it is first named. Names have no
// colon and no slash.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.host(name)
}

func (n *Network) host(name string) *Host {
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, listeners: map[int]*listener{}, nextPort: 10000, nextLocal: 40000,
			changed: make(chan struct{})}
		n.hosts[name] = h
	}
	return h
}

// Host is one machine: the comm.Network of the processes on it.
type Host struct {
	net  *Network
	name string

	// Guarded by net.mu.
	python    []int
	listeners map[int]*listener
	nextPort  int
	nextLocal int
	stalled   bool
	dead      bool
	silent    bool // dead without a word: nothing arrives and nothing comes back
	refusing  bool
	parked    []func()      // what a stalled host does when it runs again
	changed   chan struct{} // closed and replaced when stalled or dead changes
}

var _ comm.Network = (*Host)(nil)

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// Python makes the host's comms look like those of a Python peer of that version, such as
// 3, 11, 7: comm.Info of the other side has no Millstream in it.
func (h *Host) Python(version ...int) *Host {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.python = version
	return h
}

func (h *Host) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// now is the time since the network was made.
func (n *Network) now() time.Duration { return time.Since(n.birth) }

// event is something that happens at an instant. Ties are broken by name, and then by the
// order within the name, so that they do not depend on which goroutine was first.
type event struct {
	due  time.Duration
	name string
	seq  uint64
	run  func() // with mu held
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.due != b.due {
		return a.due < b.due
	}
	if a.name != b.name {
		return a.name < b.name
	}
	return a.seq < b.seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(*event)) }

// Pop is heap.Interface's.
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}

// at has run called at an instant, with mu held. The caller holds mu.
func (n *Network) at(due time.Duration, name string, run func()) {
	if n.cfg.Deterministic {
		due = max(due, n.now()+1) // not now: others who act at this instant must be in the heap too
	}
	n.seq++
	heap.Push(&n.events, &event{due: due, name: name, seq: n.seq, run: run})
	n.arm()
}

// arm sets the timer for the first event. The caller holds mu.
func (n *Network) arm() {
	if len(n.events) == 0 {
		return
	}
	due := n.events[0].due
	if n.cfg.Deterministic {
		due = max(due, n.last+1)
	}
	wait := max(due-n.now(), 0)
	if n.timer == nil {
		n.timer = time.AfterFunc(wait, n.fire)
	} else {
		n.timer.Reset(wait)
	}
}

// fire runs what is due.
func (n *Network) fire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.events) > 0 {
		now := n.now()
		if n.events[0].due > now || n.cfg.Deterministic && now <= n.last {
			break
		}
		n.last = now
		heap.Pop(&n.events).(*event).run()
	}
	n.arm()
}

// chance is a number that depends on the seed and on what it is for, and on nothing else.
func (n *Network) chance(what string, count uint64) uint64 {
	h := n.cfg.Seed ^ 14695981039346656037
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * 1099511628211
	}
	h += count * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func (n *Network) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("sim network: %d hosts, %d connections, %d events to come", len(n.hosts), len(n.conns),
		len(n.events))
}
