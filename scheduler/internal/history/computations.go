package history

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// computation is Dask's record of a computation: the graphs that were submitted between two idle times of the
// scheduler. Functions of clients can read them as dask_scheduler.computations. The loop owns it.
type computation struct {
	id    string
	start time.Time
	code  [][]byte // distinct pickles of the source code of clients
}

// maxComputations is the number of computations that are kept, the default of
// distributed.diagnostics.computations.max-history in Dask. maxCodes bounds the pieces of source code in each.
const (
	maxComputations = 100
	maxCodes        = 100
)

// Computations are the latest computations, oldest first. The loop owns it.
type Computations struct{ list []*computation }

// Note adds a graph with its code to the latest computation, or to a new one if the scheduler was idle before.
func (s *Computations) Note(now time.Time, idle bool, code []byte) {
	if len(s.list) == 0 || idle {
		if len(s.list) >= maxComputations {
			s.list = slices.Delete(s.list, 0, len(s.list)-maxComputations+1)
		}
		var b [16]byte
		_, _ = rand.Read(b[:])
		s.list = append(s.list, &computation{id: hex.EncodeToString(b[:]), start: now})
	}
	s.list[len(s.list)-1].add(code)
}

// add keeps a copy of code that is new.
func (c *computation) add(code []byte) {
	if code == nil || len(c.code) >= maxCodes || slices.ContainsFunc(c.code,
		func(o []byte) bool { return bytes.Equal(o, code) }) {
		return
	}
	c.code = append(c.code, bytes.Clone(code))
}

// Rows returns the computations as rows: see Computation in internal/dask/python/millstream/_facade.py.
func (s *Computations) Rows() []any {
	rows := make([]any, len(s.list))
	for i, c := range s.list {
		code := make([]any, len(c.code))
		for j, b := range c.code {
			code[j] = b
		}
		rows[i] = msgpack.MapOf("id", c.id, "start", val.Seconds(c.start), "code", code)
	}
	return rows
}
