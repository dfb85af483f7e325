// Package ucp is the native side of package ucx: libucp behind one C shim that loads it with dlopen, so that no UCX
// header is needed to build.
//
// The C files hold code that must be fast or must run inside UCX's callbacks: the drive loop of the token holder
// (worker.c), the path from slot to UCX request and back (submit.c), infrequent calls that run under the token
// (endpoint.c), arrival of active messages (am.c). No C function calls into Go.
//
// The Go files mirror the C structs (layout.go; a test compares every offset) so that package ucx reads and writes
// slots without crossing into C. With CGO_ENABLED=0 the package builds and every entry returns ErrNoCgo.
package ucp

import "errors"

// ErrNoCgo is returned by all functions of a binary that was built without cgo.
var ErrNoCgo = errors.New("ucx: this binary was built with CGO_ENABLED=0; rebuild with a C compiler (apt-get install " +
	"gcc) to use UCX")
