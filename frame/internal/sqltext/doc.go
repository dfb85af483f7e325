// Package sqltext parses SELECT statements into a tree. The dialect is the common part of those of PostgreSQL and
// DuckDB: common table expressions, joins, derived tables, subqueries, aggregates and window functions.
//
// The parser is a recursive descent with a limit on the length of the text and on the depth of the tree, because texts
// come from users of services. Syntax that it knows but does not support, such as GROUPING SETS, is an error that names
// it. Names keep their letters; the package that resolves them compares without regard to case.
package sqltext
