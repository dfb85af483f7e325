// Package interop holds the tests of package ucx against other programs: Python's
// UCXX, in both directions, as client and as server. scripts/setup peers installs it;
// without it the tests fail.
package interop
