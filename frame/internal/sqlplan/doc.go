// Package sqlplan lowers SELECT statements to trees of relational operators: it resolves names, turns subqueries into
// joins, and orders joins. Its nodes have expressions of package sqltext in which every column is a Ref with a name
// that is distinct in the statement. Types, push-down and execution are those of package plan.
//
// # Subqueries
//
// EXISTS and IN are semi joins, their negations anti joins. A correlated condition of the form inner = outer is a key
// of the join, another one a further condition. A scalar subquery without correlation is a cross join with its one row.
// A correlated one must be an aggregate: it is grouped by the inner sides of its correlated equalities and joined to
// the rows of the outer query, so that each group is computed once.
//
// # Order of joins
//
// Joins of FROM and the equalities of WHERE are a graph. The pair of tables with the smallest estimated result is
// joined first, then the next pair of results, until one is left; tables without a connection are combined last.
// Estimates need only the numbers of rows of the tables: the number of values of a column is at most the size of the
// smallest table that is joined on a column equal to it.
package sqlplan
