//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "libmillstream: built without cgo; install a C compiler and build with CGO_ENABLED=1 "+
		"-buildmode=c-shared")
	os.Exit(1)
}
