package sim

import (
	"container/heap"
	"fmt"
	"io"
	"sync"
	"time"

	"go.millstream.dev/comm"
)

// Config describes a network. The zero value has no delay.
type Config struct {
	// Seed determines all random behavior.
	Seed uint64
	// Link is the default of all links; see SetLink.
	Link
	// Window is the number of bytes in one direction of a connection that the peer has not read, before Write waits
	// (default 4 MiB). A larger message is sent alone, and its Write returns when the peer has read it.
	Window int64
	// Timeout is how long a connection survives a cut link (default 30 s, as with distributed.comm.timeouts.tcp;
	// negative: no limit).
	Timeout time.Duration
	// Deterministic makes events at least a nanosecond apart: see the package documentation on time.
	Deterministic bool
	// Trace, if not nil, gets a line per event, as returned by Network.Trace. Its errors are ignored.
	Trace io.Writer
}

// Link describes one direction between two hosts.
type Link struct {
	// Latency is the time from the last byte sent to the last byte received.
	Latency time.Duration
	// Jitter is the maximum that is added to the latency, depending on the seed. Order within a connection is kept.
	Jitter time.Duration
	// Bandwidth is in bytes per second, shared by the connections of the link (0: no limit).
	Bandwidth int64
}

// Network is a set of hosts and links. mu guards its whole state, including hosts, listeners and comms, and is never
// held while waiting.
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

// New returns a network.
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

// Host returns the host with a name, which is created at the first call. Names have no colon and no slash.
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

// Host is a machine. It is the comm.Network of its processes.
type Host struct {
	net  *Network
	name string

	// net.mu guards the fields below.
	python    []int
	listeners map[int]*listener
	nextPort  int
	nextLocal int
	stalled   bool
	dead      bool
	silent    bool // dead without notification: nothing arrives or returns
	refusing  bool
	parked    []func()      // called when a stalled host resumes
	changed   chan struct{} // closed and replaced when stalled or dead changes
}

var _ comm.Network = (*Host)(nil)

// Name returns the name of the host.
func (h *Host) Name() string { return h.name }

// Python makes comms of the host look like those of a Python peer with a version such as 3, 11, 7: comm.Info of the
// other side has no Millstream.
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

// now returns the time since the network was created.
func (n *Network) now() time.Duration { return time.Since(n.birth) }

// event happens at an instant. Ties are broken by name, and then by the order within the name, so that they do not
// depend on the order of goroutines.
type event struct {
	due  time.Duration
	name string
	seq  uint64
	run  func() // called with mu held
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

// Push implements heap.Interface.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(*event)) }

// Pop implements heap.Interface.
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}

// at calls run at an instant, with mu held. The caller holds mu.
func (n *Network) at(due time.Duration, name string, run func()) {
	if n.cfg.Deterministic {
		due = max(due, n.now()+1) // later, so that concurrent events of this instant are in the heap, too
	}
	n.seq++
	heap.Push(&n.events, &event{due: due, name: name, seq: n.seq, run: run})
	n.arm()
}

// arm sets the timer to the first event. The caller holds mu.
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

// fire runs the due events.
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

// chance returns a number that depends only on the seed, the purpose and the count.
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
