package gpu

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/cuda"
	"go.millstream.dev/frame/internal/group"
	"go.millstream.dev/mem"
)

// Operations of states and results, see table_group.cu.
const (
	countRows = iota
	countValues
	sumInt
	sumLow
	sumHigh
	sumDouble
	minimum
	maximum
)

const (
	resultCount = iota
	resultInt
	resultWide
	resultDouble
	resultOrdered
	resultMeanInt
	resultMeanWide
	resultMeanDouble
)

const noState = 1<<32 - 1

// Group returns the groups of a table by key columns and their aggregates: CountAll, Count, Sum, Min, Max and Mean. It
// is group.Grouper in the mode Complete.
func (e *Engine) Group(ctx context.Context, t *Table, keys []int, aggs []group.Spec) (_ *Table, err error) {
	schema, err := group.ResultSchema(t.Schema, keys, aggs)
	if err != nil {
		return nil, err
	}
	g := &grouping{t: t, keys: keys, column: map[int][]int{}}
	if g.call.keys, err = keyColumns("group", t, keys, func(i int) bool {
		return t.Columns[keys[i]].Valid != nil
	}); err != nil {
		return nil, err
	}
	for _, a := range aggs {
		if err := g.add(a); err != nil {
			return nil, err
		}
	}
	g.call.rows = uint64(t.Rows)
	var h held
	defer h.release()
	groups, err := e.groupRows(ctx, g, &h)
	if err != nil {
		return nil, err
	}
	out, err := e.newTable(ctx, "group", schema, groups, func(i int) bool {
		if i < len(keys) {
			return t.Columns[keys[i]].Valid != nil
		}
		return g.results[i-len(keys)].n != noState && g.results[i-len(keys)].op != resultCount
	})
	if err != nil {
		return nil, err
	}
	if err := e.groupResults(ctx, g, out, &h); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// grouping is a call of Group.
type grouping struct {
	t       *Table
	keys    []int
	call    groupArg
	column  map[int][]int // states of columns
	results []resultArg
	names   []string
}

// state returns the number of a state, which it adds if there is none.
func (g *grouping) state(op, column int) uint32 {
	for _, n := range g.column[column] {
		if g.call.state[n].op == uint32(op) {
			return uint32(n)
		}
	}
	n := int(g.call.states)
	if g.call.states++; n < maxStates {
		s := &g.call.state[n]
		s.op = uint32(op)
		if column >= 0 {
			s.column = g.t.Columns[column].arg()
		}
		g.column[column] = append(g.column[column], n)
	}
	return uint32(n)
}

// values returns the state that counts the values of a column.
func (g *grouping) values(column int) uint32 {
	if column < 0 || g.t.Columns[column].Valid == nil {
		return g.state(countRows, -1)
	}
	return g.state(countValues, column)
}

func (g *grouping) add(a group.Spec) error {
	r := resultArg{n: noState, kind: uint32(i64)}
	if a.Func != group.CountAll {
		c := g.t.Columns[a.Column]
		r.kind = uint32(c.kind())
		if c.Valid != nil || g.t.Rows == 0 {
			r.n = g.values(a.Column)
		}
	}
	switch a.Func {
	case group.CountAll:
		r.op, r.a = resultCount, g.state(countRows, -1)
	case group.Count:
		r.op, r.a = resultCount, g.values(a.Column)
	case group.Sum, group.Mean:
		g.addSum(a, &r)
	case group.Min:
		r.op, r.a = resultOrdered, g.state(minimum, a.Column)
	case group.Max:
		r.op, r.a = resultOrdered, g.state(maximum, a.Column)
	default:
		return fmt.Errorf("gpu: group: aggregate %v does not run on the device", a.Func)
	}
	if g.call.states > maxStates || len(g.results) == maxResults {
		return fmt.Errorf("gpu: group: more than %d aggregates, or %d of their states; use fewer at once", maxResults,
			maxStates)
	}
	g.results, g.names = append(g.results, r), append(g.names, a.Name)
	return nil
}

// addSum sets the states of a sum or a mean.
func (g *grouping) addSum(a group.Spec, r *resultArg) {
	k := g.t.Columns[a.Column].kind()
	switch {
	case k.float():
		r.op, r.a = resultDouble, g.state(sumDouble, a.Column)
	case k.width() < 8: // at most maxRows values of 32 bits
		r.op, r.a = resultInt, g.state(sumInt, a.Column)
	default:
		r.op, r.a, r.b = resultWide, g.state(sumLow, a.Column), g.state(sumHigh, a.Column)
	}
	if a.Func == group.Mean {
		r.op += resultMeanInt - resultInt
		if k.float() {
			r.op = resultMeanDouble
		}
		r.n = g.values(a.Column)
	}
}

// uses declares the columns of keys and states for a kernel.
func (g *grouping) uses(args []cuda.Arg) []cuda.Arg {
	args = usesKeys(g.t, g.keys, args)
	for column := range g.column {
		if column >= 0 {
			args = g.t.Columns[column].uses(args)
		}
	}
	return args
}

// Sizes of the table: it begins small, and grows by growth if it is full, which is found early.
const (
	firstSlots = 1 << 12
	growth     = 8
)

// groupRows fills the hash table and returns the number of groups. The buffers of the table are in h.
func (e *Engine) groupRows(ctx context.Context, g *grouping, h *held) (int, error) {
	stride := int(g.call.states) + 1
	enough := 1 << bits.Len(uint(2*g.t.Rows+1))
	few := g.call.keys.packed == 1
	for slots := firstSlots; ; slots *= growth {
		if !few {
			slots = min(slots, enough)
		}
		h.release()
		table, err := h.keep(e.alloc(ctx, "group", 8*stride*(slots+1)))
		if err != nil {
			return 0, err
		}
		counts, err := h.keep(e.zeroed(ctx, "group", 16))
		if err != nil {
			return 0, err
		}
		c := &g.call
		c.mask, c.slots, c.counts = uint64(slots-1), uint64(table.Addr()), uint64(counts.Addr())
		c.limit = uint64(slots * 5 / 8)
		name := "group_add"
		switch {
		case few:
			name, few = "group_add_few", false
			c.own = uint32(min(1024, 1<<(bits.Len(uint(ownWords/stride))-1)))
			c.limit = uint64(c.own / 2)
		case slots == enough:
			c.limit = uint64(slots)
			fallthrough
		default:
			if c.keys.packed == 0 {
				name = "group_add_rows"
			}
		}
		arg := cuda.Struct(bytesOf(c))
		if err := e.launch("table_group", "group_clear", stride*(slots+1), arg, cuda.AlsoOut(table)); err != nil {
			return 0, err
		}
		if g.t.Rows == 0 {
			if len(g.keys) > 0 {
				return 0, nil
			}
			return 1, e.put(ctx, table, []uint64{0}) // the group of all rows, which has the key 0
		}
		if err := e.launch("table_group", name, g.t.Rows, g.uses([]cuda.Arg{arg, cuda.AlsoOut(table),
			cuda.AlsoOut(counts)})...); err != nil {
			return 0, err
		}
		n, err := e.fetch(ctx, counts, 2)
		if err != nil {
			return 0, err
		}
		if n[1] == 0 {
			return int(n[0]), nil
		}
	}
}

// groupResults sets the columns of the result from the table of groupRows.
func (e *Engine) groupResults(ctx context.Context, g *grouping, out *Table, h *held) error {
	if out.Rows == 0 {
		return nil
	}
	numbers, err := h.keep(e.zeroed(ctx, "group", 8*(1+maxResults)))
	if err != nil {
		return err
	}
	r := groupResultArg{group: g.call, taken: uint64(numbers.Addr()), overflow: uint64(numbers.Addr()) + 8,
		results: uint32(len(g.results))}
	args := []cuda.Arg{{}, cuda.AlsoOut(numbers), cuda.AlsoIn((*h)[0])}
	for i, c := range out.Columns {
		a := c.arg()
		args = append(args, cuda.AlsoOut(c.Data))
		if c.Valid != nil {
			args = append(args, cuda.AlsoOut(c.Valid))
		}
		if i < len(g.keys) {
			r.keyData[i], r.keyValid[i] = a.data, a.valid
			continue
		}
		j := i - len(g.keys)
		r.result[j] = g.results[j]
		r.result[j].data, r.result[j].valid = a.data, a.valid
	}
	args[0] = cuda.Struct(bytesOf(&r))
	if err := e.launch("table_group", "group_store", int(g.call.mask)+2, g.uses(args)...); err != nil {
		return err
	}
	n, err := e.fetch(ctx, numbers, 1+maxResults)
	if err != nil {
		return err
	}
	if int(n[0]) != out.Rows {
		return fmt.Errorf("gpu: group: %d groups, counted %d", n[0], out.Rows)
	}
	for i, name := range g.names {
		if n[1+i] > 0 {
			return fmt.Errorf("gpu: sum %q of %d groups exceeds 64 bits; cast the column to float64", name, n[1+i])
		}
	}
	return nil
}

// GroupSupported returns an error if Group cannot compute aggregates of a table of this schema.
func GroupSupported(in *arrow.Schema, keys []int, aggs []group.Spec) error {
	columns := append([]int(nil), keys...)
	// All columns may have nulls: the most states.
	t := &Table{Rows: 1}
	for _, f := range in.Fields() {
		t.Columns = append(t.Columns, Column{Type: f.Type, Data: mem.FromBytes(nil), Valid: mem.FromBytes(nil)})
	}
	g := &grouping{t: t, column: map[int][]int{}}
	for _, a := range aggs {
		if a.Func != group.CountAll {
			columns = append(columns, a.Column)
		}
		if err := g.add(a); err != nil {
			return err
		}
	}
	if len(keys) > maxKeys {
		return fmt.Errorf("gpu: group: %d keys, at most %d", len(keys), maxKeys)
	}
	for _, c := range columns {
		if err := Supported(arrow.NewSchema([]arrow.Field{in.Field(c)}, nil)); err != nil {
			return err
		}
	}
	return nil
}
