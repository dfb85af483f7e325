// Command libmillstream is the C library of cliques: go build -buildmode=c-shared, see scripts/build-library. Its
// interface is include/millstream.h, its use from Python is class Comms of the Python package. It is the only part of
// the project in which C calls Go: docs/adr/0037-c-library.md.
package main
