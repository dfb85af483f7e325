package expr

// Op is the operation of an Expr.
type Op string

// The operations. Functions have the names under which String prints them.
const (
	OpColumn  Op = "column"
	OpLiteral Op = "literal"
	OpAs      Op = "as"

	OpEq      Op = "=="
	OpNe      Op = "!="
	OpLt      Op = "<"
	OpLe      Op = "<="
	OpGt      Op = ">"
	OpGe      Op = ">="
	OpIn      Op = "in"
	OpIsNull  Op = "is null"
	OpNotNull Op = "is not null"

	OpAnd Op = "and"
	OpOr  Op = "or"
	OpNot Op = "not"

	OpAdd    Op = "+"
	OpSub    Op = "-"
	OpMul    Op = "*"
	OpDiv    Op = "/"
	OpIntDiv Op = "//"
	OpMod    Op = "%"
	OpNeg    Op = "neg"
	OpAbs    Op = "abs"
	OpRound  Op = "round"
	OpFloor  Op = "floor"
	OpCeil   Op = "ceil"
	OpSqrt   Op = "sqrt"
	OpExp    Op = "exp"
	OpLog    Op = "log"
	OpPow    Op = "pow"

	OpCast     Op = "cast"
	OpTryCast  Op = "try_cast"
	OpIf       Op = "if"
	OpCoalesce Op = "coalesce"
	OpNullIf   Op = "null_if"

	OpLower      Op = "lower"
	OpUpper      Op = "upper"
	OpLength     Op = "length"
	OpSubstring  Op = "substring"
	OpConcat     Op = "concat"
	OpContains   Op = "contains"
	OpStartsWith Op = "starts_with"
	OpEndsWith   Op = "ends_with"
	OpLike       Op = "like"
	OpReplace    Op = "replace"
	OpTrim       Op = "trim"

	OpYear      Op = "year"
	OpQuarter   Op = "quarter"
	OpMonth     Op = "month"
	OpDay       Op = "day"
	OpHour      Op = "hour"
	OpMinute    Op = "minute"
	OpSecond    Op = "second"
	OpDayOfWeek Op = "day_of_week"
	OpDayOfYear Op = "day_of_year"
	OpTruncate  Op = "truncate"
	OpAddDays   Op = "add_days"
	OpAddMonths Op = "add_months"
	OpDateDiff  Op = "date_diff"
)

// isComparison reports whether o compares two values.
func (o Op) isComparison() bool {
	switch o {
	case OpEq, OpNe, OpLt, OpLe, OpGt, OpGe:
		return true
	}
	return false
}

// flip returns the comparison with its operands exchanged.
func (o Op) flip() Op {
	switch o {
	case OpLt:
		return OpGt
	case OpLe:
		return OpGe
	case OpGt:
		return OpLt
	case OpGe:
		return OpLe
	}
	return o
}
