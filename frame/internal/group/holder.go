package group

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// holder has the state of all groups for one or more aggregates of a column.
type holder interface {
	// types returns the types of the columns of its state.
	types() []arrow.DataType
	// bind sets the columns of the next batch: the column of rows, or those of states.
	bind(cols []arrow.Array, pos int64) error
	// add adds rows of the batch from a number on to the groups ids. There are groups of them now.
	add(from int, ids []uint32, groups int) error
	// end ends a batch.
	end() error
	// states returns the columns of its state.
	states(groups int) ([]arrow.Array, error)
	bytes() int64
}

// kind is a kind of state.
type kind uint8

const (
	rowKind kind = iota
	countKind
	sumKind
	minKind
	maxKind
	momentsKind
	valuesKind
	digestKind
	firstKind
	lastKind
	distinctKind
	collectKind
)

var kindNames = [...]string{"rows", "count", "sum", "min", "max", "moments", "values", "digest", "first", "last",
	"distinct", "list"}

// holderKey identifies a holder, so that aggregates share it.
type holderKey struct {
	kind   kind
	column int
}

// holders has the states of all aggregates.
type holders struct {
	in      *arrow.Schema
	mode    Mode
	single  bool // one group, which exists without rows
	specs   []Spec
	list    []holder
	kinds   []holderKey
	columns [][]int // of the input batch, for each holder
	sent    []bool  // in states, by holder
	byKey   map[holderKey]int
	results []result
	arrays  []arrow.Array
}

// result computes the result of an aggregate from its holders.
type result struct {
	field   arrow.Field
	compute func(groups int) (arrow.Array, error)
}

func newHolders(in *arrow.Schema, specs []Spec, mode Mode, single bool) (*holders, error) {
	h := &holders{in: in, mode: mode, single: single, specs: specs, byKey: make(map[holderKey]int)}
	for _, s := range specs {
		if err := s.check(in); err != nil {
			return nil, err
		}
		r, err := h.resolve(s)
		if err != nil {
			return nil, err
		}
		r.field.Name, r.field.Nullable = s.Name, true
		h.results = append(h.results, r)
	}
	return h, nil
}

// state returns a holder, which it makes if there is none yet.
func (h *holders) state(k kind, column int, sent bool, build func() (holder, error)) (holder, error) {
	key := holderKey{k, column}
	if i, ok := h.byKey[key]; ok {
		h.sent[i] = h.sent[i] || sent
		return h.list[i], nil
	}
	made, err := build()
	if err != nil {
		return nil, err
	}
	h.byKey[key] = len(h.list)
	h.list = append(h.list, made)
	h.kinds = append(h.kinds, key)
	h.sent = append(h.sent, sent)
	var cols []int
	if h.mode.rowInput() && column >= 0 {
		cols = []int{column}
	}
	h.columns = append(h.columns, cols)
	return made, nil
}

// order returns the numbers of the holders whose states are sent, in an order that is the same in all modes.
func (h *holders) order() (out []int) {
	for i := range h.list {
		if h.sent[i] {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(h.kinds[a].kind, h.kinds[b].kind), cmp.Compare(h.kinds[a].column, h.kinds[b].column))
	})
	return out
}

// readStates sets the columns of batches of states, the first of which has a number.
func (h *holders) readStates(first int) {
	for _, i := range h.order() {
		for range h.list[i].types() {
			h.columns[i] = append(h.columns[i], first)
			first++
		}
	}
}

func (h *holders) stateFields() (out []arrow.Field) {
	for _, i := range h.order() {
		s := h.list[i]
		of := ""
		if c := h.kinds[i].column; c >= 0 {
			of = h.in.Field(c).Name
		}
		for j, t := range s.types() {
			out = append(out, arrow.Field{Name: fmt.Sprintf("%s(%s).%d", kindNames[h.kinds[i].kind], of, j), Type: t,
				Nullable: true})
		}
	}
	return out
}

func (h *holders) resultFields() (out []arrow.Field) {
	for _, r := range h.results {
		out = append(out, r.field)
	}
	return out
}

func (h *holders) bind(b arrow.RecordBatch, pos int64) error {
	for i, s := range h.list {
		h.arrays = h.arrays[:0]
		for _, c := range h.columns[i] {
			h.arrays = append(h.arrays, b.Column(c))
		}
		if err := s.bind(h.arrays, pos); err != nil {
			return err
		}
	}
	return nil
}

func (h *holders) add(from int, ids []uint32, groups int) error {
	for _, s := range h.list {
		if err := s.add(from, ids, groups); err != nil {
			return err
		}
	}
	return nil
}

func (h *holders) end() error {
	for _, s := range h.list {
		if err := s.end(); err != nil {
			return err
		}
	}
	return nil
}

func (h *holders) bytes() (sum int64) {
	for _, s := range h.list {
		sum += s.bytes()
	}
	return sum
}

// output returns the columns after the keys.
func (h *holders) output(groups int, mode Mode) (out []arrow.Array, err error) {
	if h.single {
		// Holders learn of the one group even if there are no rows.
		if err := h.add(0, nil, 1); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			vec.Release(out)
			out = nil
		}
	}()
	if mode.stateOutput() {
		for _, i := range h.order() {
			cols, err := h.list[i].states(groups)
			if err != nil {
				return out, err
			}
			out = append(out, cols...)
		}
		return out, nil
	}
	for _, r := range h.results {
		a, err := r.compute(groups)
		if err != nil {
			return out, err
		}
		out = append(out, a)
	}
	return out, nil
}
