// Command nocgo is built without a C compiler by a test, and prints why UCX cannot be
// used then.
package main

import (
	"fmt"

	"go.millstream.dev/ucx"
)

func main() {
	fmt.Println(ucx.Available())
	_, err := ucx.NewContext(ucx.Config{})
	fmt.Println(err)
}
