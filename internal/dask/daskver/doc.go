// Package daskver knows which releases of Dask Millstream has been tested with, and compares
// the packages of a cluster's members as Dask does.
//
// The messages of Dask have no version of their own: a peer of another release is not
// refused by the protocol, it misunderstands. So each role looks at the release of its
// peers: one that is older than the oldest tested is refused, since graphs and tasks have
// another form there; one that is newer than the newest tested is let in with a loud
// warning; one that does not tell its release is no Dask, or a very odd one.
package daskver
