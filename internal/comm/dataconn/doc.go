// Package dataconn finds and dials the data connections of Millstream workers: second connections, over shared memory
// say, that carry large values next to the address a worker is known by (docs/adr/0010).
//
// A worker announces its data connection when it is asked over its own address, where the caller is authenticated, and
// adds an invitation that admits one connection. A [Book] asks once, remembers the answer, dials with an invitation
// each time, and leaves a data connection that failed alone for a while. Whatever goes wrong with a data connection,
// its user falls back on the worker's own address.
package dataconn
