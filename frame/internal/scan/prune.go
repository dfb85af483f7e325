package scan

// Op is the operation of a condition.
type Op string

// The operations.
const (
	Eq      Op = "=="
	Ne      Op = "!="
	Lt      Op = "<"
	Le      Op = "<="
	Gt      Op = ">"
	Ge      Op = ">="
	In      Op = "in"
	IsNull  Op = "is null"
	NotNull Op = "is not null"
)

// Cond is a condition on one column that a row fulfills to be of use. A condition that cannot be decided from the
// statistics of a file, because of its type for example, is ignored.
type Cond struct {
	Column string
	Op     Op
	// Value is the constant of a comparison: bool, int64, uint64, float64, string, []byte, time.Time (for dates and
	// timestamps) or Decimal; for In it is a list of type []any.
	Value any
}

// Decimal is a decimal constant: Hi and Lo are the two's complement number of 128 bits, divided by 10 to the power of
// Scale.
type Decimal struct {
	Hi    int64
	Lo    uint64
	Scale int32
}
