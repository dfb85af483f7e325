// Package cli implements the command tree of the millstream binary.
//
// One call makes a program its own scheduler and worker:
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
// The first Ctrl-C cancels the command: children are ended, and results so far are printed. The second one ends the
// process immediately.
package cli
