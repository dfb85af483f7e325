// Command millstream-bench runs the benchmarks of Millstream; `millstream bench` starts it. Run `millstream bench help`
// for a list.
package main

import (
	"os"

	"go.millstream.dev/bench/internal/command"
	"go.millstream.dev/cli"
	"go.millstream.dev/internal/proc/cmdline"
)

func main() {
	cli.Serve() // this program also runs the processes of measured clusters
	os.Exit(cmdline.RunProcess(command.Command(), os.Args[1:]))
}
