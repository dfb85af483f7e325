// Package lane finds and dials the data lanes of Millstream workers: second connections, over shared memory say, that
// carry large values beside the address a worker is known by (docs/adr/0010).
//
// A worker tells of its lane when it is asked over its own address, where who asks is known, and adds a cookie that
// admits one connection. A [Book] asks once, remembers the answer, dials with a cookie each time, and leaves a lane
// that failed alone for a while. Whatever goes wrong with a lane, its user falls back on the worker's own address.
package lane
