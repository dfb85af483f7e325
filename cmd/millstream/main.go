// Command millstream is the RAPIDS communications stack for Go in one binary.
// Run `millstream help` for the commands.
package main

import (
	"os"

	"go.millstream.dev/cli"
	_ "go.millstream.dev/docs"  // for the command docs
	_ "go.millstream.dev/frame" // workers run queries of Python programs, and those of Go programs without functions
)

func main() { os.Exit(cli.Main()) }
