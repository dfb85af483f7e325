// Command millstream-bench has the benchmarks of Millstream; `millstream bench` starts it. Run `millstream bench help`
// for the list.
package main

import (
	"os"

	"go.millstream.dev/bench/internal/command"
	"go.millstream.dev/cli"
	"go.millstream.dev/internal/proc/cmdline"
)

func main() {
	cli.Serve() // clusters that are measured are of this program
	os.Exit(cmdline.RunProcess(command.Command(), os.Args[1:]))
}
