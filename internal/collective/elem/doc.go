// Package elem defines the elements of collectives: their kinds, the operations on them, and the loops of reductions,
// which are in C if cgo is available.
package elem
