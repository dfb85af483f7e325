// Package daskver has the releases of Dask with which Millstream has been tested, and compares the packages of the
// members of a cluster as Dask does.
//
// The messages of Dask have no version: the protocol does not reject a peer of another release, which misinterprets
// messages instead. So each role checks the release of its peers. A release older than the oldest tested one is
// rejected, because graphs and tasks have another form there; one newer than the newest tested one is accepted with a
// warning; a peer that does not report a release is not Dask, or a modified one.
package daskver
