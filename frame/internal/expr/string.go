package expr

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Precedences of the text of an expression.
const (
	precLow = iota // as
	precNot
	precCompare
	precAdd
	precMul
	precAtom
)

// String returns the expression as text.
func (e Expr) String() string {
	text, _ := textOf(e, 0)
	return text
}

// Label returns the name of the result of e: that of As, of the column, or the text of the expression.
func Label(e Expr) string {
	if e.Op == OpAs || e.Op == OpColumn {
		return e.Name
	}
	return e.String()
}

// textOf returns the text of e and its precedence. Operands nested too deep are omitted.
func textOf(e Expr, depth int) (string, int) {
	if depth > maxDepth {
		return "…", precAtom
	}
	depth++
	switch e.Op {
	case OpColumn:
		return e.Name, precAtom
	case OpLiteral:
		return literalText(e), precAtom
	case OpAnd, OpOr:
		return "(" + strings.Join(argTexts(e, 0, depth), " "+string(e.Op)+" ") + ")", precAtom
	case OpIn:
		if len(e.Args) > 0 {
			return argText(e, 0, precCompare+1, depth) + " in (" + strings.Join(argTexts(e, 1, depth), ", ") + ")",
				precCompare
		}
	case OpCast, OpTryCast:
		if len(e.Args) == 1 {
			return fmt.Sprintf("%s(%s as %s)", e.Op, argText(e, 0, precNot, depth), e.Type), precAtom
		}
	}
	if len(e.Args) == 1 {
		switch e.Op {
		case OpAs:
			return argText(e, 0, precNot, depth) + " as " + e.Name, precLow
		case OpNot:
			return "not " + argText(e, 0, precNot, depth), precNot
		case OpNeg:
			return "-" + argText(e, 0, precAtom, depth), precMul
		case OpIsNull, OpNotNull:
			return argText(e, 0, precCompare, depth) + " " + string(e.Op), precCompare
		}
	}
	if p := precedence(e.Op); p > 0 && len(e.Args) == 2 {
		left := p
		if p == precCompare {
			left++
		}
		return argText(e, 0, left, depth) + " " + string(e.Op) + " " + argText(e, 1, p+1, depth), p
	}
	args := argTexts(e, 0, depth)
	if e.Name != "" {
		args = append([]string{strconv.Quote(e.Name)}, args...)
	}
	return string(e.Op) + "(" + strings.Join(args, ", ") + ")", precAtom
}

// precedence returns that of an infix operation, 0 for others.
func precedence(op Op) int {
	switch op {
	case OpEq, OpNe, OpLt, OpLe, OpGt, OpGe, OpLike:
		return precCompare
	case OpAdd, OpSub:
		return precAdd
	case OpMul, OpDiv, OpIntDiv, OpMod:
		return precMul
	}
	return 0
}

// argText returns the text of an operand, in parentheses if its precedence is less than least.
func argText(e Expr, i, least, depth int) string {
	text, p := textOf(e.Args[i], depth)
	if p < least {
		return "(" + text + ")"
	}
	return text
}

func argTexts(e Expr, from, depth int) []string {
	var out []string
	for i := from; i < len(e.Args); i++ {
		out = append(out, argText(e, i, precNot, depth))
	}
	return out
}

func literalText(e Expr) string {
	switch x := e.Value.(type) {
	case nil:
		return "null"
	case string:
		if e.Type != "" && strings.HasPrefix(e.Type, "decimal") {
			return x
		}
		return strconv.Quote(x)
	case []byte:
		return strconv.Quote(string(x))
	case time.Time:
		return x.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(e.Value)
}
