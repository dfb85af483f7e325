package expr

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// maxDepth bounds the nesting of expressions, which are received in messages.
const maxDepth = 200

// node is an operation whose columns and types are resolved. Operands have the types that the operation computes with:
// casts are nodes of their own.
type node struct {
	op     Op
	t      arrow.DataType
	args   []*node
	column int    // of OpColumn: its index in the schema
	value  any    // of OpLiteral: the value in the form that scalar describes
	unit   string // of functions of times
	src    Expr   // for messages
}

func (n *node) class() class    { return classOf(n.t) }
func (n *node) isLiteral() bool { return n.op == OpLiteral }
func (n *node) isNull() bool    { return n.op == OpLiteral && n.value == nil }

// binder resolves expressions against a schema.
type binder struct{ schema *arrow.Schema }

// bind returns the node of e, or a *TypeError.
func (b *binder) bind(e Expr, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, typeErrorf("expression is nested more than %d deep", maxDepth)
	}
	switch e.Op {
	case OpColumn:
		i, err := ColumnIndex(b.schema, e.Name)
		if err != nil {
			return nil, err
		}
		t := b.schema.Field(i).Type
		if t.ID() == arrow.NULL && depth > 0 {
			return nullOf(t, e), nil
		}
		return &node{op: OpColumn, t: t, column: i, src: e}, nil
	case OpLiteral:
		return bindLiteral(e)
	}
	rule, ok := rules[e.Op]
	if !ok {
		return nil, typeErrorf("unknown operation %q", string(e.Op))
	}
	if n := len(e.Args); n < rule.least || rule.most >= 0 && n > rule.most {
		return nil, typeErrorf("%s has %d operands, want %s", e.Op, n, rule.want())
	}
	n := &node{op: e.Op, args: make([]*node, len(e.Args)), unit: e.Name, src: e}
	for i, a := range e.Args {
		var err error
		if n.args[i], err = b.bind(a, depth+1); err != nil {
			return nil, err
		}
	}
	out, err := rule.bind(n)
	if err != nil {
		return nil, err
	}
	return fold(out), nil
}

// rule has the numbers of operands of an operation and its rule of types, which may replace the node.
type rule struct {
	least, most int // most is -1 without a limit
	bind        func(n *node) (*node, error)
}

func (r rule) want() string {
	switch {
	case r.most < 0:
		return fmt.Sprintf("at least %d", r.least)
	case r.least == r.most:
		return fmt.Sprint(r.least)
	}
	return fmt.Sprintf("%d to %d", r.least, r.most)
}

var rules map[Op]rule

func init() {
	rules = map[Op]rule{
		OpAs: {1, 1, func(n *node) (*node, error) { return n.args[0], nil }},
		OpEq: {2, 2, bindCompare}, OpNe: {2, 2, bindCompare}, OpLt: {2, 2, bindCompare},
		OpLe: {2, 2, bindCompare}, OpGt: {2, 2, bindCompare}, OpGe: {2, 2, bindCompare},
		OpIn: {1, -1, bindIn}, OpIsNull: {1, 1, bindNullTest}, OpNotNull: {1, 1, bindNullTest},
		OpAnd: {0, -1, bindLogic}, OpOr: {0, -1, bindLogic}, OpNot: {1, 1, bindLogic},
		OpAdd: {2, 2, bindArithmetic}, OpSub: {2, 2, bindArithmetic}, OpMul: {2, 2, bindArithmetic},
		OpDiv: {2, 2, bindArithmetic}, OpIntDiv: {2, 2, bindArithmetic}, OpMod: {2, 2, bindArithmetic},
		OpPow: {2, 2, bindArithmetic}, OpNeg: {1, 1, bindSign}, OpAbs: {1, 1, bindSign},
		OpRound: {1, 2, bindRound}, OpFloor: {1, 1, bindRound}, OpCeil: {1, 1, bindRound},
		OpSqrt: {1, 1, bindFloat}, OpExp: {1, 1, bindFloat}, OpLog: {1, 1, bindFloat},
		OpCast: {1, 1, bindCast}, OpTryCast: {1, 1, bindCast}, OpIf: {3, 3, bindIf},
		OpCoalesce: {1, -1, bindCoalesce}, OpNullIf: {2, 2, bindNullIf},
		OpLower: {1, 1, bindText}, OpUpper: {1, 1, bindText}, OpTrim: {1, 1, bindText}, OpReplace: {3, 3, bindText},
		OpLength: {1, 1, bindLength}, OpSubstring: {2, 3, bindSubstring}, OpConcat: {1, -1, bindConcat},
		OpContains: {2, 2, bindText}, OpStartsWith: {2, 2, bindText}, OpEndsWith: {2, 2, bindText},
		OpLike: {2, 2, bindText},
		OpYear: {1, 1, bindPart}, OpQuarter: {1, 1, bindPart}, OpMonth: {1, 1, bindPart}, OpDay: {1, 1, bindPart},
		OpHour: {1, 1, bindPart}, OpMinute: {1, 1, bindPart}, OpSecond: {1, 1, bindPart},
		OpDayOfWeek: {1, 1, bindPart}, OpDayOfYear: {1, 1, bindPart},
		OpTruncate: {1, 1, bindTruncate}, OpAddDays: {2, 2, bindAddTime}, OpAddMonths: {2, 2, bindAddTime},
		OpDateDiff: {2, 2, bindDateDiff},
	}
}

// ColumnIndex returns the index of the only column of a name, or a *TypeError.
func ColumnIndex(s *arrow.Schema, name string) (int, error) {
	switch at := s.FieldIndices(name); len(at) {
	case 1:
		return at[0], nil
	case 0:
		return 0, typeErrorf("no column %q among %s", name, firstNames(s))
	default:
		return 0, typeErrorf("%d columns named %q", len(at), name)
	}
}

// firstNames returns the names of the first columns of a schema.
func firstNames(s *arrow.Schema) string {
	const most = 8
	var names []string
	for i, f := range s.Fields() {
		if i == most {
			names = append(names, "…")
			break
		}
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// bindLiteral returns a constant with the type of its Go value.
func bindLiteral(e Expr) (*node, error) {
	n := &node{op: OpLiteral, src: e, value: e.Value}
	switch x := e.Value.(type) {
	case nil:
		n.t = arrow.Null
	case bool:
		n.t = boolType
	case int64:
		n.t = int64Type
	case uint64:
		n.t = uint64Type
	case float64:
		n.t = float64Type
	case string:
		n.t = utf8Type
	case []byte:
		n.t, n.value = binaryType, string(x)
	case time.Time:
		n.t, n.value = timeLiteral(x)
	default:
		return nil, typeErrorf("constant %v has the unsupported type %T; use nil, bool, a number, string, []byte or "+
			"time.Time", e.Value, e.Value)
	}
	if e.Type == "" {
		return n, nil
	}
	t, err := ParseType(e.Type)
	if err != nil {
		return nil, err
	}
	return convert(n, t)
}

// mismatch returns the error of an operation that does not accept the types of its operands.
func (n *node) mismatch(format string, args ...any) error {
	return typeErrorf("%v: %s", n.src, fmt.Sprintf(format, args...))
}

// TypeError is returned by Bind for an expression that does not fit a schema: a missing column, or operands of
// unsuitable types.
type TypeError struct {
	// Reason names the expression, its columns and their types.
	Reason string
}

// Error returns the reason.
func (e *TypeError) Error() string { return "expr: " + e.Reason }

func typeErrorf(format string, args ...any) error { return &TypeError{fmt.Sprintf(format, args...)} }
