// Package cmdline runs command trees: one line for an error, exit codes, signals, suggestions. The millstream command
// and its benchmarks share it.
package cmdline
