package ucxcomm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/proc/sysmem"
)

// UCX receives a frame into memory of its full length, which is allocated when the peer announces it. Announced bytes
// that have not arrived are counted here, per host and in total, so that a peer that announces 60 GiB loses its
// connection instead of exhausting the memory of this process.

const (
	// countedFrom is the length from which frames are counted: shorter ones are bounded by the number of comms.
	countedFrom = 64 << 10
	// reserveTime is how long a frame waits for others to arrive if its host, or all hosts together, have announced too
	// much.
	reserveTime = 30 * time.Second
	// Announced data must arrive within arrivalTime plus a second per arrivalRate bytes.
	arrivalTime = time.Minute
	arrivalRate = 16 << 20
)

// ledger counts the bytes announced to the process.
type ledger struct {
	mu      sync.Mutex
	total   int64            // guarded by mu
	hosts   map[string]int64 // guarded by mu
	changed chan struct{}    // closed when bytes are returned; guarded by mu
}

// announced is the ledger of the process: all comms share its memory.
var announced = ledger{hosts: map[string]int64{}, changed: make(chan struct{})}

// most returns the bound of announced bytes in total.
func (*ledger) most() int64 { return sysmem.Limit() / 4 * 3 }

// take counts n bytes of a host if they are within the bounds; otherwise it returns a channel that is closed when bytes
// are returned.
func (l *ledger) take(host string, n, perHost int64) (wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host]+n > perHost || l.total+n > l.most() {
		return l.changed
	}
	l.total += n
	l.hosts[host] += n
	return nil
}

func (l *ledger) give(host string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total -= n
	if l.hosts[host] -= n; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// account counts the announced bytes of one comm's peer for the message being read. Owner: the current reader of the
// comm.
type account struct {
	host    string
	perHost int64  // Limits.Announced, 0 for the default
	late    func() // called when announced data does not arrive in time
	held    int64
	timer   *time.Timer
	counted atomic.Int64 // bytes of all announced frames; any goroutine may read it
}

// reserve counts a frame before memory is allocated for it. It waits while too much is announced.
func (a *account) reserve(ctx context.Context, size int64) error {
	if size < countedFrom || a == nil {
		return nil
	}
	perHost := a.perHost
	if perHost <= 0 {
		perHost = sysmem.Limit() / 2
	}
	if a.held+size > perHost {
		return &limitError{what: "bytes at once", got: a.held + size, limit: perHost, key: "Limits.Announced"}
	}
	wait := announced.take(a.host, size, perHost)
	if wait != nil {
		limit := time.NewTimer(reserveTime)
		defer limit.Stop()
		for ; wait != nil; wait = announced.take(a.host, size, perHost) {
			select {
			case <-wait:
			case <-limit.C:
				return fmt.Errorf("frame of %d bytes announced while earlier announced frames have not "+
					"arrived for %v (Limits.Announced)", size, reserveTime)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	a.held += size
	a.counted.Add(size)
	d := arrivalTime + time.Duration(a.held/arrivalRate)*time.Second
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.late)
	} else {
		a.timer.Reset(d)
	}
	return nil
}

// deliver subtracts the bytes of a frame that has arrived.
func (a *account) deliver(size int64) {
	if size < countedFrom || a == nil {
		return
	}
	a.held -= size
	announced.give(a.host, size)
	if a.held == 0 {
		a.timer.Stop()
	}
}

// release subtracts all remaining bytes, at the end of a read.
func (a *account) release() {
	if a.held != 0 {
		announced.give(a.host, a.held)
		a.held = 0
		a.timer.Stop()
	}
}
