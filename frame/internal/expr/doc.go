// Package expr implements the expressions of frames: a tree that travels as an argument of tasks, its types against a
// schema, and its evaluation on record batches.
//
//	b, err := expr.Bind(expr.Col("price").Mul(expr.Col("count")), schema)
//	b.Type()             // the type of the result
//	a, err := b.Eval(batch)
//
// # Types
//
// Numbers of different types are compared exactly. The result of integer arithmetic is int64, or uint64 if one operand
// is uint64 and the other one is unsigned too or a constant of at least 0. An integer with a float is float64, an
// integer with a decimal is a decimal, a decimal with a float is float64. Constants adapt: a float32 column plus 0.5 is
// float32, and a text constant is a date or a time where it is compared with one.
//
// # Nulls
//
// Functions of a null are null, except IsNull, NotNull, Coalesce, NullIf and If. And and Or use the three-valued
// logic of
// SQL. Division of integers by zero is null.
package expr
