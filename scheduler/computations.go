package scheduler

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// computation is Dask's record of a piece of work: the graphs that came from when nothing
// was on its way until nothing was any more. Functions of clients are shown them as
// dask_scheduler.computations. The loop owns it.
type computation struct {
	id    string
	start time.Time
	code  [][]byte // pickles, no two alike: what the programs of the clients were at
}

// maxComputations is how many are kept: Dask's default of
// distributed.diagnostics.computations.max-history. maxCodes and maxCode bound the source
// code in each: how many pieces, and how long one may be.
const (
	maxComputations = 100
	maxCodes        = 100
	maxCode         = 64 << 10
)

// emptyTuple is the pickle of (), which clients send as long as they are not told to send
// code (distributed.diagnostics.computations.nframes).
const emptyTuple = "\x80\x05)."

// readCode is the pickle of the source code that came with a graph; nil where there is
// none, or too much. It borrows from the message.
func readCode(m *wire.Message, u *wire.UpdateGraph) []byte {
	v, err := wire.DecodeRef(m, u.Code, val.KeepClosed)
	if err != nil {
		return nil // what nobody may ever look at is no reason to refuse a graph
	}
	p, ok := v.(*wire.Pickled)
	if !ok || len(p.Buffers) > 0 || len(p.Data) > maxCode || string(p.Data) == emptyTuple {
		return nil
	}
	return p.Data
}

// noteComputation files a graph under the computation that it belongs to, before the state
// has it. It runs in the loop.
func (s *Scheduler) noteComputation(code []byte) {
	if len(s.computations) == 0 || s.state.Idle() {
		if len(s.computations) >= maxComputations {
			s.computations = slices.Delete(s.computations, 0, len(s.computations)-maxComputations+1)
		}
		var b [16]byte
		_, _ = rand.Read(b[:])
		s.computations = append(s.computations, &computation{id: hex.EncodeToString(b[:]), start: s.loop.Now()})
	}
	s.computations[len(s.computations)-1].add(code)
}

// add keeps a copy of code that is new.
func (c *computation) add(code []byte) {
	if code == nil || len(c.code) >= maxCodes || slices.ContainsFunc(c.code, func(o []byte) bool { return bytes.Equal(o, code) }) {
		return
	}
	c.code = append(c.code, bytes.Clone(code))
}

// facadeComputations are the computations as rows: see Computation in
// python/millstream/_facade.py.
func (s *Scheduler) facadeComputations() []any {
	rows := make([]any, len(s.computations))
	for i, c := range s.computations {
		code := make([]any, len(c.code))
		for j, b := range c.code {
			code[j] = b
		}
		rows[i] = msgpack.MapOf("id", c.id, "start", val.Seconds(c.start), "code", code)
	}
	return rows
}
