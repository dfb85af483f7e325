package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// JoinSpec is a join as users write it.
type JoinSpec struct {
	Kind JoinKind
	// Swap exchanges the sides of a Left join: all rows of the right side are kept.
	Swap bool
	// On are keys with the same name on both sides, of which the result has one column.
	On []string
	// LeftOn and RightOn are keys, pair by pair.
	LeftOn, RightOn []expr.Expr
	// Where is a further condition, on the columns of the result.
	Where *expr.Expr
	// Suffix is appended to the names of columns on the right that the left side has as well.
	Suffix string
	// NullAware makes an anti join that of NOT IN.
	NullAware bool
}

// NewJoin returns a join.
func NewJoin(l, r Node, spec JoinSpec) (Node, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	b := &joinBuilder{spec: spec, l: newProjector(l)}
	if err := b.rename(l, r); err != nil {
		return nil, err
	}
	for _, name := range spec.On {
		if _, err := fieldOf(l.Schema(), name); err != nil {
			return nil, fmt.Errorf("left side: %w", err)
		}
		if _, err := fieldOf(r.Schema(), name); err != nil {
			return nil, fmt.Errorf("right side: %w", err)
		}
		if err := b.key(column(name), column(b.names[name])); err != nil {
			return nil, err
		}
	}
	for i, le := range spec.LeftOn {
		if err := b.key(expr.Unnamed(le), rename(expr.Unnamed(spec.RightOn[i]), b.names)); err != nil {
			return nil, err
		}
	}
	return b.join()
}

func (s *JoinSpec) check() error {
	if len(s.LeftOn) != len(s.RightOn) {
		return fmt.Errorf("%d keys on the left and %d on the right", len(s.LeftOn), len(s.RightOn))
	}
	keys := len(s.On) + len(s.LeftOn)
	if s.Kind == Cross && keys > 0 {
		return errors.New("a cross join has no keys; use Inner")
	}
	if s.Kind != Cross && keys == 0 && s.Where == nil {
		return errors.New("no keys; set On, or LeftOn and RightOn, or use a cross join")
	}
	if s.Kind == Cross && s.Where != nil {
		s.Kind = Inner
	}
	return nil
}

// joinBuilder makes the names of both sides distinct, and columns of the keys.
type joinBuilder struct {
	spec   JoinSpec
	l, r   *projector
	names  map[string]string // of the right side in the join
	lk, rk []string
	hidden []string // columns on the right that the result does not have: those of On
}

// rename gives columns on the right whose names the left side has as well another name.
func (b *joinBuilder) rename(l, r Node) error {
	b.names = map[string]string{}
	cols := Columns(r)
	taken := map[string]bool{}
	for _, f := range l.Schema().Fields() {
		taken[f.Name] = true
	}
	for _, c := range cols {
		if !taken[c.Name] {
			b.names[c.Name] = c.Name
		}
	}
	for i, c := range cols {
		if !taken[c.Name] {
			continue
		}
		name := c.Name + b.spec.Suffix
		if slices.Contains(b.spec.On, c.Name) || b.spec.Kind.leftOnly() {
			for taken[name] || b.names[name] != "" || slices.Contains(b.hidden, name) {
				name += "_"
			}
			b.hidden = append(b.hidden, name)
		} else if taken[name] || b.names[name] != "" {
			return fmt.Errorf("column %q is on both sides, and so is %q; set another Suffix", c.Name, name)
		}
		cols[i].Name, b.names[c.Name] = name, name
	}
	if err := checkRenamed(cols); err != nil {
		return err
	}
	renamed := r
	for i, c := range cols {
		if c.Name != r.Schema().Field(i).Name {
			var err error
			if renamed, err = NewProject(r, cols); err != nil {
				return err
			}
			break
		}
	}
	b.r = newProjector(renamed)
	return nil
}

func checkRenamed(cols []Named) error {
	seen := map[string]bool{}
	for _, c := range cols {
		if seen[c.Name] {
			return fmt.Errorf("the right side would have two columns named %q; set another Suffix", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// key adds a pair of keys, which are converted to a common type.
func (b *joinBuilder) key(le, re expr.Expr) error {
	lt, err := typeOf(le, b.l.in.Schema())
	if err != nil {
		return fmt.Errorf("left side: %w", err)
	}
	rt, err := typeOf(re, b.r.in.Schema())
	if err != nil {
		return fmt.Errorf("right side: %w", err)
	}
	if !arrow.TypeEqual(lt, rt) {
		t, ok := commonType(lt, rt)
		if !ok {
			return fmt.Errorf("key %s is %v on the left and %v on the right (%s), which cannot be compared; use Cast",
				le, lt, rt, re)
		}
		le, re = castTo(le, lt, t), castTo(re, rt, t)
	}
	l, err := b.l.column(le)
	if err != nil {
		return err
	}
	r, err := b.r.column(re)
	if err != nil {
		return err
	}
	b.lk, b.rk = append(b.lk, l), append(b.rk, r)
	return nil
}

// conditions takes equalities of both sides in the condition as keys, and returns the rest.
func (b *joinBuilder) conditions() (*expr.Expr, error) {
	if b.spec.Where == nil {
		return nil, nil
	}
	both := arrow.NewSchema(append(slices.Clone(b.l.in.Schema().Fields()), b.r.in.Schema().Fields()...), nil)
	if t, err := typeOf(*b.spec.Where, both); err != nil {
		return nil, err
	} else if t.ID() != arrow.BOOL && t.ID() != arrow.NULL {
		return nil, fmt.Errorf("%s is %v, not bool", *b.spec.Where, t)
	}
	var rest []expr.Expr
	for _, c := range expr.Conjuncts(*b.spec.Where) {
		l, r, ok := equality(c, b.l.in.Schema(), b.r.in.Schema())
		if !ok {
			rest = append(rest, c)
			continue
		}
		if err := b.key(l, r); err != nil {
			return nil, err
		}
	}
	return conjunction(rest), nil
}

// equality returns the operands of an equality of the two sides.
func equality(e expr.Expr, left, right *arrow.Schema) (l, r expr.Expr, ok bool) {
	x, y, ok := equalOperands(e)
	if !ok {
		return l, r, false
	}
	switch {
	case uses(x, left) && uses(y, right):
		return x, y, true
	case uses(x, right) && uses(y, left):
		return y, x, true
	}
	return l, r, false
}

// uses reports whether an expression has columns, all of them of a schema.
func uses(e expr.Expr, s *arrow.Schema) bool {
	cols := expr.Columns(e)
	for _, c := range cols {
		if len(s.FieldIndices(c)) == 0 {
			return false
		}
	}
	return len(cols) > 0
}

// join returns the join of the prepared sides and the projection to the columns of the result.
func (b *joinBuilder) join() (Node, error) {
	cond, err := b.conditions()
	if err != nil {
		return nil, err
	}
	l, err := b.l.node()
	if err != nil {
		return nil, err
	}
	r, err := b.r.node()
	if err != nil {
		return nil, err
	}
	kind := b.spec.Kind
	if b.spec.NullAware && (kind != Anti || len(b.lk) != 1 || cond != nil) {
		return nil, errors.New("only an anti join with one key can be aware of nulls")
	}
	j := Join{Left: l, Right: r, Kind: kind, LeftKeys: b.lk, RightKeys: b.rk, Cond: cond, NullAware: b.spec.NullAware}
	if b.spec.Swap {
		j.Left, j.Right, j.LeftKeys, j.RightKeys = r, l, b.rk, b.lk
	}
	var cols []Named
	for _, c := range Columns(b.l.in) {
		if slices.Contains(b.spec.On, c.Name) {
			switch {
			case b.spec.Swap:
				c.Expr = column(b.names[c.Name])
			case kind == Full:
				c.Expr = c.Expr.Coalesce(column(b.names[c.Name]))
			}
		}
		cols = append(cols, c)
	}
	if !kind.leftOnly() {
		for _, c := range Columns(b.r.in) {
			if !slices.Contains(b.hidden, c.Name) {
				cols = append(cols, c)
			}
		}
	}
	return NewProject(newJoin(j), cols)
}
