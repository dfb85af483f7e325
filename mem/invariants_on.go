//go:build invariants

package mem

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

const invariants = true

// viewBatch is 1: each view is tracked separately, and a batch lives as long as any of its views.
const viewBatch = 1

// debugState records where a Buffer was created and released.
type debugState struct {
	life *lifeRecord
}

type lifeRecord struct {
	what     string
	born     string
	released atomic.Pointer[string]
}

// leakReport is replaced by tests.
var leakReport atomic.Pointer[func(msg string)]

func (d *debugState) born(b *Buffer) {
	d.life = &lifeRecord{what: b.String(), born: string(debug.Stack())}
	if b.blk.region.heap != nil && b.blk.chunk == nil {
		return // freed by the garbage collector: not a leak
	}
	// Report only: C memory is never freed from here, since it may still be in use.
	runtime.AddCleanup(b, func(l *lifeRecord) {
		if l.released.Load() != nil {
			return
		}
		msg := fmt.Sprintf("mem: leak: a %s was never released; made at:\n%s", l.what, l.born)
		if f := leakReport.Load(); f != nil {
			(*f)(msg)
			return
		}
		fmt.Fprintln(os.Stderr, msg)
	}, d.life)
}

func (d *debugState) died() {
	s := string(debug.Stack())
	d.life.released.Store(&s)
}

func (d *debugState) misuse(op string) {
	where := "(release still running)"
	if s := d.life.released.Load(); s != nil {
		where = *s
	}
	panic(fmt.Sprintf("mem: %s of a released %s; first released at:\n%s", op, d.life.what, where))
}

// poison makes stale reads of recycled memory visible.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
