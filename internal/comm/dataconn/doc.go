// Package dataconn finds and dials the data connections of Millstream workers: second connections, for example over
// shared memory, that carry large values next to the address a worker is known by (docs/adr/0010).
//
// A worker announces its data connection on request over its own address, where the caller is authenticated, and adds
// an invitation that admits one connection. A [Book] queries once, caches the answer, dials with an invitation each
// time, and does not use a data connection that failed for a while. Whatever goes wrong with a data connection, its
// user falls back to the worker's own address.
package dataconn
