// Package cli is the command tree of the millstream binary.
//
// A program of your own becomes its own scheduler and worker by one call:
//
//	func main() {
//		millstream.Main()
//		cli.Serve() // program scheduler, program worker, program cuda-worker
//		…
//	}
//
// For all commands add [Command] to a cobra tree, or call [Main].
//
// # Exit codes
//
//	0    done
//	1    the command failed, or `doctor` found a failure; one line on
//	     standard error says what to do
//	2    the command line is wrong; the line names the --help to read
//	130  interrupted by Ctrl-C (SIGINT)
//	143  ended by SIGTERM
//
// The first Ctrl-C cancels what runs: children are ended, what was measured
// so far is printed. The second one ends the process at once.
package cli
