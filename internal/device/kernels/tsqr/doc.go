// Package tsqr reduces a tall table of numbers, whose rows are spread over ranks, to its number of rows, the means of
// its columns and a small triangle: the factor R of the QR decomposition of the table minus the means. Principal
// components, singular values and least squares of the whole table follow from these. Triangles are computed by
// Householder reflections, first for the rows of each rank and then for pairs of ranks, so that results have the
// accuracy of a decomposition of the whole table. docs/adr/0038-tall-tables.md explains the choice.
package tsqr
