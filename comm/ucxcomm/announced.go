package ucxcomm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/proc/sysmem"
)

// UCX receives a frame into memory of its full length, which is allocated when the peer
// announces it. What peers have announced and not sent is counted here, for each host and
// in all, so that a promise of 60 GiB costs its peer the connection and not this process.

const (
	// countedFrom is the length from which frames are counted: fewer bytes are bounded by
	// the number of comms.
	countedFrom = 64 << 10
	// reserveTime is how long a frame waits for others to arrive where its host, or all
	// together, have announced too much.
	reserveTime = 30 * time.Second
	// What has been announced must arrive within arrivalTime and a second for each
	// arrivalRate bytes.
	arrivalTime = time.Minute
	arrivalRate = 16 << 20
)

// ledger counts the bytes announced to the process.
type ledger struct {
	mu      sync.Mutex
	total   int64            // guarded by mu
	hosts   map[string]int64 // guarded by mu
	changed chan struct{}    // closed when bytes are given back; guarded by mu
}

// announced is the ledger of the process: its memory is one, whatever comms use it.
var announced = ledger{hosts: map[string]int64{}, changed: make(chan struct{})}

// most returns the bound of what is announced in all.
func (*ledger) most() int64 { return sysmem.Limit() / 4 * 3 }

// take counts n bytes of a host if they are within the bounds; otherwise it returns a
// channel that is closed when there may be room.
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

// account is what one comm's peer has announced of the message that is being read. Owner:
// who has the comm's turn to read.
type account struct {
	host    string
	perHost int64  // Limits.Announced, 0 for the default
	late    func() // called when what was announced does not arrive
	held    int64
	timer   *time.Timer
	counted atomic.Int64 // bytes of all frames that were announced; any goroutine may read it
}

// reserve counts a frame before memory is allocated for it. It waits where too much is
// announced.
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
				return fmt.Errorf("a frame of %d bytes is announced while other frames, announced before, have not "+
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

// arrived gives back what was counted for a frame.
func (a *account) arrived(size int64) {
	if size < countedFrom || a == nil {
		return
	}
	a.held -= size
	announced.give(a.host, size)
	if a.held == 0 {
		a.timer.Stop()
	}
}

// release gives back all that is left, at the end of a read.
func (a *account) release() {
	if a.held != 0 {
		announced.give(a.host, a.held)
		a.held = 0
		a.timer.Stop()
	}
}
