// Package chaos tests what a running cluster does while its parts fail: workers and the scheduler are killed,
// frozen and cut off, disks and memory fill up. Results must be those of an undisturbed run.
//
// `go test ./tests/chaos` is a short form of it. `make chaos` (MILLSTREAM_CHAOS=full, build tag chaos) is the
// long one, with the tests that need network and mount namespaces; it prints what it counted.
package chaos
