package expr

// truths returns the rows for which a condition is true.
func truths(x *exec, v bitvec) []uint64 {
	if v.valid == nil {
		return v.v
	}
	out := alloc[uint64](x, len(v.v))
	for i, w := range v.v {
		out[i] = w & v.valid[i]
	}
	return out
}

// inverse returns the rows that are not set.
func inverse(x *exec, rows []uint64) []uint64 {
	out := alloc[uint64](x, len(rows))
	for i, w := range rows {
		out[i] = ^w
	}
	return out
}

// merge has the results of a choice between sources for the current rows.
type merge[T any] struct {
	x     *exec
	v     []T
	valid []uint64 // nil until a null is written
}

// take evaluates s on the k rows whose bits are set and writes its values there.
func (m *merge[T]) take(s source[T], rows []uint64, k int) error {
	x := m.x
	if k == 0 {
		return nil
	}
	at := alloc[int32](x, k)
	indices(at, rows, x.n, 0)
	if c, ok := s.(literal[T]); ok {
		for _, r := range at {
			m.v[r] = c.value
		}
		if c.null {
			m.nulls(at)
		}
		return nil
	}
	return x.under(rows, k, func() error {
		v, err := s.eval(x)
		if err != nil {
			return err
		}
		for i, r := range at {
			m.v[r] = v.v[i]
		}
		if v.valid != nil {
			missing := at[:0]
			for i, r := range at {
				if !bitSet(v.valid, i) {
					missing = append(missing, r)
				}
			}
			m.nulls(missing)
		}
		return nil
	})
}

func (m *merge[T]) nulls(rows []int32) {
	if m.valid == nil && len(rows) > 0 {
		m.valid = fill(m.x, len(m.v), true)
	}
	for _, r := range rows {
		m.valid[r/64] &^= 1 << (r % 64)
	}
}

// ifOp chooses between two sources, each evaluated on its rows only.
type ifOp[T any] struct {
	cond      predicate
	then, not source[T]
}

func (o ifOp[T]) eval(x *exec) (vec[T], error) {
	c, err := o.cond.test(x)
	if err != nil {
		return vec[T]{}, err
	}
	rows := truths(x, c)
	k := count(rows, x.n)
	switch k {
	case 0:
		return o.not.eval(x)
	case x.n:
		return o.then.eval(x)
	}
	m := merge[T]{x: x, v: newValues[T](x)}
	if err := m.take(o.then, rows, k); err != nil {
		return vec[T]{}, err
	}
	if err := m.take(o.not, inverse(x, rows), x.n-k); err != nil {
		return vec[T]{}, err
	}
	return vec[T]{m.v, m.valid}, nil
}

func compileIf[T any](n *node) (source[T], error) {
	c, err := compilePredicate(n.args[0])
	if err != nil {
		return nil, err
	}
	then, err := compile[T](n.args[1])
	if err != nil {
		return nil, err
	}
	not, err := compile[T](n.args[2])
	return ifOp[T]{c, then, not}, err
}

// coalesceOp is the first value of several sources that is not null. Each is evaluated on the rows that need it.
type coalesceOp[T any] struct{ args []source[T] }

func (o coalesceOp[T]) eval(x *exec) (vec[T], error) {
	first, err := o.args[0].eval(x)
	if err != nil || first.valid == nil || len(o.args) == 1 {
		return first, err
	}
	m := merge[T]{x: x, v: newValues[T](x)}
	copy(m.v, first.v)
	missing := inverse(x, first.valid)
	for _, a := range o.args[1:] {
		k := count(missing, x.n)
		if k == 0 {
			break
		}
		m.valid = nil
		if err := m.take(a, missing, k); err != nil {
			return vec[T]{}, err
		}
		if m.valid == nil {
			return vec[T]{v: m.v}, nil
		}
		missing = inverse(x, m.valid)
	}
	return vec[T]{m.v, inverse(x, missing)}, nil
}

func compileCoalesce[T any](n *node) (source[T], error) {
	var o coalesceOp[T]
	for _, a := range n.args {
		s, err := compile[T](a)
		if err != nil {
			return nil, err
		}
		o.args = append(o.args, s)
	}
	return o, nil
}

// nullIfOp is null where a condition is true.
type nullIfOp[T any] struct {
	a    source[T]
	cond predicate
}

func (o nullIfOp[T]) eval(x *exec) (vec[T], error) {
	v, err := o.a.eval(x)
	if err != nil {
		return vec[T]{}, err
	}
	c, err := o.cond.test(x)
	if err != nil {
		return vec[T]{}, err
	}
	return vec[T]{v.v, both(x, v.valid, inverse(x, truths(x, c)))}, nil
}

// equality returns the condition of NullIf.
func equality(n *node) (predicate, error) {
	return compileCompare(&node{op: OpEq, t: boolType, args: n.args, src: n.src})
}

func compileNullIf[T any](n *node) (source[T], error) {
	a, err := compile[T](n.args[0])
	if err != nil {
		return nil, err
	}
	c, err := equality(n)
	return nullIfOp[T]{a, c}, err
}

// boolIf is ifOp of booleans. Its results are bits, so that it is a combination of conditions if no operand may fail.
type boolIf struct{ cond, then, not predicate }

func (o boolIf) test(x *exec) (bitvec, error) {
	c, err := o.cond.test(x)
	if err != nil {
		return bitvec{}, err
	}
	rows := truths(x, c)
	k := count(rows, x.n)
	switch k {
	case 0:
		return o.not.test(x)
	case x.n:
		return o.then.test(x)
	}
	a, err := scattered(x, rows, k, o.then)
	if err != nil {
		return bitvec{}, err
	}
	b, err := scattered(x, inverse(x, rows), x.n-k, o.not)
	if err != nil {
		return bitvec{}, err
	}
	out := bitvec{v: alloc[uint64](x, len(rows)), valid: both(x, a.valid, b.valid)}
	for i, w := range rows {
		out.v[i] = a.v[i]&w | b.v[i]&^w
	}
	return out, nil
}

func compileBoolIf(n *node) (predicate, error) {
	var p [3]predicate
	for i, a := range n.args {
		var err error
		if p[i], err = compilePredicate(a); err != nil {
			return nil, err
		}
	}
	return boolIf{p[0], p[1], p[2]}, nil
}

// boolCoalesce is coalesceOp of booleans.
type boolCoalesce struct{ args []predicate }

func (o boolCoalesce) test(x *exec) (bitvec, error) {
	acc, err := o.args[0].test(x)
	for _, a := range o.args[1:] {
		if err != nil || acc.valid == nil {
			break
		}
		missing := inverse(x, acc.valid)
		k := count(missing, x.n)
		if k == 0 {
			break
		}
		var next bitvec
		if next, err = scattered(x, missing, k, a); err != nil {
			break
		}
		out := bitvec{v: alloc[uint64](x, len(missing)), valid: next.valid}
		for i, w := range missing {
			out.v[i] = acc.v[i]&^w | next.v[i]&w
		}
		acc = out
	}
	return acc, err
}

func compileBoolCoalesce(n *node) (predicate, error) {
	var o boolCoalesce
	for _, a := range n.args {
		p, err := compilePredicate(a)
		if err != nil {
			return nil, err
		}
		o.args = append(o.args, p)
	}
	return o, nil
}

type boolNullIf struct{ a, cond predicate }

func (o boolNullIf) test(x *exec) (bitvec, error) {
	v, err := o.a.test(x)
	if err != nil {
		return bitvec{}, err
	}
	c, err := o.cond.test(x)
	if err != nil {
		return bitvec{}, err
	}
	return bitvec{v.v, both(x, v.valid, inverse(x, truths(x, c)))}, nil
}

func compileBoolNullIf(n *node) (predicate, error) {
	a, err := compilePredicate(n.args[0])
	if err != nil {
		return nil, err
	}
	c, err := equality(n)
	return boolNullIf{a, c}, err
}
