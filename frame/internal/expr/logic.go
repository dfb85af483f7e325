package expr

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// compilePredicate returns the predicate of n, whose type is bool.
func compilePredicate(n *node) (predicate, error) {
	switch n.op {
	case OpColumn:
		return boolColumn{n.column}, nil
	case OpLiteral:
		v, _ := n.value.(bool)
		return boolLiteral{v, n.value == nil}, nil
	case OpEq, OpNe, OpLt, OpLe, OpGt, OpGe:
		return compileCompare(n)
	case OpIn:
		return compileIn(n)
	case OpIsNull, OpNotNull:
		of, err := compileValidity(n.args[0])
		return nullTest{of, n.op == OpIsNull}, err
	case OpNot:
		a, err := compilePredicate(n.args[0])
		return notOp{a}, err
	case OpAnd, OpOr:
		return compileLogic(n)
	case OpIf:
		return compileBoolIf(n)
	case OpCoalesce:
		return compileBoolCoalesce(n)
	case OpNullIf:
		return compileBoolNullIf(n)
	case OpCast, OpTryCast:
		return compileBoolCast(n)
	case OpContains, OpStartsWith, OpEndsWith, OpLike:
		return compileTextTest(n)
	}
	return nil, n.mismatch("operation %s is no condition", n.op)
}

// nullTest is true for rows without a value, or for those with one.
type nullTest struct {
	of   validity
	null bool
}

func (o nullTest) test(x *exec) (bitvec, error) {
	valid, err := o.of.rows(x)
	if err != nil {
		return bitvec{}, err
	}
	if valid == nil {
		return bitvec{v: fill(x, x.n, !o.null)}, nil
	}
	if !o.null {
		return bitvec{v: valid}, nil
	}
	out := alloc[uint64](x, len(valid))
	for i, w := range valid {
		out[i] = ^w
	}
	return bitvec{v: out}, nil
}

type notOp struct{ a predicate }

func (o notOp) test(x *exec) (bitvec, error) {
	v, err := o.a.test(x)
	if err != nil {
		return bitvec{}, err
	}
	out := alloc[uint64](x, len(v.v))
	for i, w := range v.v {
		out[i] = ^w
	}
	return bitvec{out, v.valid}, nil
}

// logicOp is And or Or in three-valued logic. Operands that may fail, and those that are evaluated when few rows are
// undecided, are evaluated on the undecided rows only.
type logicOp struct {
	or    bool
	args  []predicate
	fails []bool
}

func compileLogic(n *node) (predicate, error) {
	o := logicOp{or: n.op == OpOr}
	for _, a := range n.args {
		p, err := compilePredicate(a)
		if err != nil {
			return nil, err
		}
		o.args = append(o.args, p)
		o.fails = append(o.fails, mayFail(a))
	}
	switch len(o.args) {
	case 0:
		return boolLiteral{value: !o.or}, nil
	case 1:
		return o.args[0], nil
	}
	return o, nil
}

// mayFail reports whether the evaluation of n can return an error.
func mayFail(n *node) bool {
	switch n.op {
	case OpAdd, OpSub, OpMul, OpNeg, OpAbs, OpRound, OpIntDiv:
		if n.class() != floating {
			return true
		}
	case OpCast, OpAddDays, OpAddMonths, OpDateDiff, OpTruncate:
		return true
	}
	for _, a := range n.args {
		if mayFail(a) {
			return true
		}
	}
	return false
}

func (o logicOp) test(x *exec) (bitvec, error) {
	acc, err := o.args[0].test(x)
	if err != nil {
		return bitvec{}, err
	}
	for i, a := range o.args[1:] {
		open := o.undecided(x, acc)
		k := count(open, x.n)
		if k == 0 {
			return acc, nil
		}
		var next bitvec
		if k < x.n && (o.fails[i+1] || k < x.n/4) {
			next, err = scattered(x, open, k, a)
		} else {
			next, err = a.test(x)
		}
		if err != nil {
			return bitvec{}, err
		}
		if o.or {
			acc = or(x, acc, next)
		} else {
			acc = and(x, acc, next)
		}
	}
	return acc, nil
}

// undecided returns the rows whose result depends on further operands: those not false of And, not true of Or.
func (o logicOp) undecided(x *exec, v bitvec) []uint64 {
	out := alloc[uint64](x, len(v.v))
	for i, w := range v.v {
		if o.or {
			w = ^w
		}
		if v.valid != nil {
			w |= ^v.valid[i]
		}
		out[i] = w
	}
	return out
}

// scattered evaluates a on the k rows whose bits are set. The results of other rows are undefined and valid.
func scattered(x *exec, rows []uint64, k int, a predicate) (bitvec, error) {
	var few bitvec
	err := x.under(rows, k, func() (err error) {
		few, err = a.test(x)
		return err
	})
	if err != nil {
		return bitvec{}, err
	}
	out := bitvec{v: spread(x, few.v, rows, k, x.n)}
	if few.valid != nil {
		out.valid = spread(x, few.valid, rows, k, x.n)
		for i, w := range rows {
			out.valid[i] |= ^w
		}
	}
	return out, nil
}

// spread moves the bits of k rows to the rows whose bits are set.
func spread(x *exec, few, rows []uint64, k, n int) []uint64 {
	at := alloc[int32](x, k)
	indices(at, rows, n, 0)
	out := alloc[uint64](x, wordsFor(n))
	clear(out)
	for i, r := range at {
		out[r/64] |= few[i/64] >> (i % 64) & 1 << (r % 64)
	}
	return out
}

// and is false if an operand is, null if another operand is null, and true otherwise.
func and(x *exec, a, b bitvec) bitvec {
	out := bitvec{v: alloc[uint64](x, len(a.v))}
	for i := range out.v {
		out.v[i] = a.v[i] & b.v[i]
	}
	if a.valid == nil && b.valid == nil {
		return out
	}
	out.valid = alloc[uint64](x, len(a.v))
	for i := range out.valid {
		va, vb := word(a.valid, i), word(b.valid, i)
		out.valid[i] = va&vb | va&^a.v[i] | vb&^b.v[i]
	}
	return out
}

// or is true if an operand is, null if another operand is null, and false otherwise.
func or(x *exec, a, b bitvec) bitvec {
	out := bitvec{v: alloc[uint64](x, len(a.v))}
	if a.valid == nil && b.valid == nil {
		for i := range out.v {
			out.v[i] = a.v[i] | b.v[i]
		}
		return out
	}
	out.valid = alloc[uint64](x, len(a.v))
	for i := range out.valid {
		va, vb := word(a.valid, i), word(b.valid, i)
		out.v[i] = a.v[i]&va | b.v[i]&vb
		out.valid[i] = va&vb | out.v[i]
	}
	return out
}

func word(valid []uint64, i int) uint64 {
	if valid == nil {
		return ^uint64(0)
	}
	return valid[i]
}

// boolOrder compares booleans: false is less than true.
type boolOrder struct {
	op   Op
	a, b predicate
}

func (o boolOrder) test(x *exec) (bitvec, error) {
	a, err := o.a.test(x)
	if err != nil {
		return bitvec{}, err
	}
	b, err := o.b.test(x)
	if err != nil {
		return bitvec{}, err
	}
	out := alloc[uint64](x, len(a.v))
	for i := range out {
		p, q := a.v[i], b.v[i]
		switch o.op {
		case OpEq:
			out[i] = ^(p ^ q)
		case OpNe:
			out[i] = p ^ q
		case OpLt:
			out[i] = ^p & q
		case OpLe:
			out[i] = ^p | q
		case OpGt:
			out[i] = p &^ q
		default:
			out[i] = p | ^q
		}
	}
	return bitvec{out, both(x, a.valid, b.valid)}, nil
}

func compileBools(op Op, a, b *node) (predicate, error) {
	pa, err := compilePredicate(a)
	if err != nil {
		return nil, err
	}
	pb, err := compilePredicate(b)
	return boolOrder{op, pa, pb}, err
}

// nonZero converts numbers to booleans.
type nonZero[T comparable] struct{ a source[T] }

func (o nonZero[T]) test(x *exec) (bitvec, error) {
	v, err := o.a.eval(x)
	if err != nil {
		return bitvec{}, err
	}
	var zero T
	hits := alloc[bool](x, x.n)
	for i, a := range v.v[:len(hits)] {
		hits[i] = a != zero
	}
	return packed(x, hits, v.valid), nil
}

// compileBoolCast converts numbers and texts to booleans.
func compileBoolCast(n *node) (predicate, error) {
	s, err := compileAny(n.args[0])
	if err != nil {
		return nil, err
	}
	switch a := s.(type) {
	case predicate:
		return a, nil
	case source[string]:
		return nonZero[uint8]{castOp[string, uint8]{n, a, func(s string) (uint8, bool) {
			v, ok := parseBool(s)
			if v {
				return 1, ok
			}
			return 0, ok
		}, n.op == OpTryCast}}, nil
	case source[int8]:
		return nonZero[int8]{a}, nil
	case source[int16]:
		return nonZero[int16]{a}, nil
	case source[int32]:
		return nonZero[int32]{a}, nil
	case source[int64]:
		return nonZero[int64]{a}, nil
	case source[uint8]:
		return nonZero[uint8]{a}, nil
	case source[uint16]:
		return nonZero[uint16]{a}, nil
	case source[uint32]:
		return nonZero[uint32]{a}, nil
	case source[uint64]:
		return nonZero[uint64]{a}, nil
	case source[float32]:
		return nonZero[float32]{a}, nil
	case source[float64]:
		return nonZero[float64]{a}, nil
	case source[int128]:
		return nonZero[int128]{a}, nil
	}
	return nil, n.mismatch("%v cannot be converted to bool", n.args[0].t)
}

// inShort is the length of lists that are searched one value after the other.
const inShort = 8

// inSet is true for values of a set. If the list has a null, other values are null instead of false.
type inSet[T comparable] struct {
	a    source[T]
	list []T            // of short lists
	set  map[T]struct{} // of long ones
	null bool
}

func (o inSet[T]) test(x *exec) (bitvec, error) {
	v, err := o.a.eval(x)
	if err != nil {
		return bitvec{}, err
	}
	hits := alloc[bool](x, x.n)
	values := v.v[:len(hits)]
	if o.set == nil {
		clear(hits)
		for _, c := range o.list {
			for i, a := range values {
				hits[i] = hits[i] || a == c
			}
		}
	} else {
		for i, a := range values {
			_, hits[i] = o.set[a]
		}
	}
	out := packed(x, hits, v.valid)
	if o.null {
		out.valid = both(x, out.valid, out.v)
	}
	return out, nil
}

func newInSet[T comparable](a source[T], list []T, null bool) predicate {
	o := inSet[T]{a: a, list: list, null: null}
	if len(list) > inShort {
		o.set = make(map[T]struct{}, len(list))
		for _, v := range list {
			o.set[v] = struct{}{}
		}
	}
	return o
}

// compileIn searches constants in a set, and compares with other operands one after the other.
func compileIn(n *node) (predicate, error) {
	a := n.args[0]
	var constants, others []*node
	null := false
	for _, v := range n.args[1:] {
		switch {
		case v.isNull():
			null = true
		case v.isLiteral() && a.class() != boolean:
			constants = append(constants, v)
		default:
			others = append(others, v)
		}
	}
	var either []predicate
	var fails []bool
	if len(constants) > 0 || len(others) == 0 {
		p, err := compileSet(a, constants, null)
		if err != nil {
			return nil, err
		}
		either, fails = append(either, p), append(fails, false)
	} else if null {
		either, fails = append(either, boolLiteral{null: true}), append(fails, false)
	}
	for _, v := range others {
		p, err := compileCompare(&node{op: OpEq, t: boolType, args: []*node{a, v}, src: n.src})
		if err != nil {
			return nil, err
		}
		either, fails = append(either, p), append(fails, mayFail(v))
	}
	if len(either) == 1 {
		return either[0], nil
	}
	return logicOp{or: true, args: either, fails: fails}, nil
}

// compileSet returns the search of a in constants. Those that the type of a does not have are omitted.
func compileSet(a *node, constants []*node, null bool) (predicate, error) {
	switch formOf(a.t) {
	case formInt8:
		return integerSet[int8](a, constants, null)
	case formInt16:
		return integerSet[int16](a, constants, null)
	case formInt32:
		return integerSet[int32](a, constants, null)
	case formInt64:
		return integerSet[int64](a, constants, null)
	case formUint8:
		return integerSet[uint8](a, constants, null)
	case formUint16:
		return integerSet[uint16](a, constants, null)
	case formUint32:
		return integerSet[uint32](a, constants, null)
	case formUint64:
		return integerSet[uint64](a, constants, null)
	case formFloat32:
		return floatSet[float32](a, constants, null)
	case formFloat64:
		return floatSet[float64](a, constants, null)
	case formInt128:
		s, err := compile[int128](a)
		var list []int128
		for _, c := range exactUnits(a.t, constants) {
			if v, ok := int128OfBig(c); ok {
				list = append(list, v)
			}
		}
		return newInSet(s, list, null), err
	case formText:
		s, err := compile[string](a)
		var list []string
		for _, c := range constants {
			list = append(list, c.value.(string))
		}
		return newInSet(s, unique(list), null), err
	}
	// A boolean, or a type that is only copied, with a list of nulls or of nothing.
	of, err := compileValidity(a)
	if null {
		return boolLiteral{null: true}, err
	}
	return always{of, false}, err
}

// exactUnits returns the constants in units of a type, without those between two values of it.
func exactUnits(t arrow.DataType, constants []*node) []*big.Int {
	var out []*big.Int
	for _, c := range constants {
		if f, ok := c.value.(float64); ok && (f != f || f-f != 0) { // NaN, infinite
			continue
		}
		if v, exact := unitsOf(c, t); exact {
			out = append(out, v)
		}
	}
	return out
}

func integerSet[T whole](a *node, constants []*node, null bool) (predicate, error) {
	s, err := compile[T](a)
	least, most := bounds[T]()
	var list []T
	for _, c := range exactUnits(a.t, constants) {
		if c.Cmp(least) < 0 || c.Cmp(most) > 0 {
			continue
		}
		if c.IsInt64() {
			list = append(list, T(c.Int64()))
		} else {
			list = append(list, T(c.Uint64()))
		}
	}
	return newInSet(s, unique(list), null), err
}

// floatSet omits NaN, which equals nothing, and numbers that the type does not have.
func floatSet[T float32 | float64](a *node, constants []*node, null bool) (predicate, error) {
	s, err := compile[T](a)
	var list []T
	for _, c := range constants {
		f, ok := c.value.(float64)
		if d, isDecimal := c.value.(int128); isDecimal {
			f, ok = float64(T(d.float()/pow10f64[scaleOf(c.t)])), true
		}
		if !ok {
			var exact bool
			if f, exact = rational(c, false).Float64(); !exact {
				continue
			}
		}
		if float64(T(f)) == f {
			list = append(list, T(f))
		}
	}
	return newInSet(s, unique(list), null), err
}

func unique[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}
