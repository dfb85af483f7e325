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

// computation is Dask's record of a piece of work: the graphs that came from when nothing
// was on its way until nothing was any more. Functions of clients are shown them as
// dask_scheduler.computations. The loop owns it.
type computation struct {
	id    string
	start time.Time
	code  [][]byte // pickles, no two alike: what the programs of the clients were at
}

// maxComputations is how many are kept: Dask's default of
// distributed.diagnostics.list.max-history. maxCodes bounds the
// pieces of source code in each.
const (
	maxComputations = 100
	maxCodes        = 100
)

// Computations are the latest ones, the oldest first. The loop owns it.
type Computations struct{ list []*computation }

// Note files a graph with its code under the computation that it belongs to: the latest, or a new one if nothing was on
// its way before.
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

// Rows returns the computations as rows: see Computation in
// internal/dask/python/millstream/_facade.py.
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
