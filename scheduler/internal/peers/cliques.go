package peers

import (
	"strings"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// CliqueReport is the part of a worker in a clique, as its heartbeat describes it.
type CliqueReport struct {
	ID         string
	Rank, Size int
	Backend    string
	Error      string // why the clique has failed, "" if it has not
	Ops        []CliqueOp
	End        float64 // when the clique was dissolved, in seconds since 1970; 0 before
}

// CliqueOp are the calls of one operation by a rank.
type CliqueOp struct {
	Name         string
	Count, Bytes int64
	Seconds      float64
}

// Bounds of the report of a worker, which chooses all of it.
const (
	maxCliques    = 64
	maxCliqueOps  = 32
	maxCliqueText = 200
	maxRank       = 1 << 16
	maxSum        = 1 << 53
)

// ReadCliques reads cliques of extensions.millstream of a worker's heartbeat: a list of [id, rank, size, backend,
// error, operations, end]; operations is a map from names to [count, bytes, seconds], and older workers send no end.
// Malformed entries are ignored.
func ReadCliques(extensions any) []CliqueReport {
	ext, _ := extensions.(msgpack.Map)
	ours, _ := ext.Get("millstream")
	m, _ := ours.(msgpack.Map)
	v, _ := m.Get("cliques")
	list, _ := v.([]any)
	var out []CliqueReport
	for _, x := range list[:min(len(list), maxCliques)] {
		f, _ := x.([]any)
		if len(f) < 6 {
			continue
		}
		rank, ok1 := val.Integer(f[1])
		size, ok2 := val.Integer(f[2])
		c := CliqueReport{ID: text(f[0]), Rank: int(rank), Size: int(size), Backend: text(f[3]), Error: text(f[4])}
		if !ok1 || !ok2 || c.ID == "" || rank < 0 || rank >= maxRank || size < 1 || size > maxRank {
			continue
		}
		if len(f) > 6 {
			if end, ok := val.Number(f[6]); ok && end > 0 && end < maxSum {
				c.End = end
			}
		}
		ops, _ := f[5].(msgpack.Map)
		for k, v := range ops.All() {
			n, _ := v.([]any)
			if len(n) < 3 || len(c.Ops) == maxCliqueOps {
				continue
			}
			count, ok1 := val.Integer(n[0])
			bytes, ok2 := val.Integer(n[1])
			seconds, ok3 := val.Number(n[2])
			name := text(k)
			if ok1 && ok2 && ok3 && name != "" && count >= 0 && count < maxSum && bytes >= 0 && bytes < maxSum &&
				seconds >= 0 && seconds < maxSum {
				c.Ops = append(c.Ops, CliqueOp{name, count, bytes, seconds})
			}
		}
		out = append(out, c)
	}
	return out
}

// text returns a bounded copy of a worker's text; "" for another value.
func text(v any) string {
	s, _ := v.(string)
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), maxCliqueText)], "\ufffd"))
}
