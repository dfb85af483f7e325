// Package elem has the elements that collectives work on: their kinds, the operations that put them together, and the
// loops that do it, in C where there is cgo.
package elem
