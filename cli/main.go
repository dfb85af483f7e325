package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/stdio"
)

// Exit codes of the millstream binary.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 128 + int(syscall.SIGINT)
	ExitTerminated  = 128 + int(syscall.SIGTERM)
)

// Main runs the command line of this process with Ctrl-C handling and
// returns its exit code.
func Main() int {
	cluster.Main() // a process that is to be a worker goes no further
	return runProcess(Command())
}

// runProcess runs the command line of this process and returns its exit code.
func runProcess(root *cobra.Command) int {
	ctx, stop := signalContext(context.Background(), os.Exit)
	defer stop()
	return runTree(ctx, root, os.Args[1:], os.Stdin, stdio.Claim(), os.Stderr)
}

// Run runs one command line and returns the exit code. An error is written
// to stderr as one line. Cancelling ctx ends the command.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runTree(ctx, Command(), args, stdin, stdout, stderr)
}

func runTree(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root, unknownCommand(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	code := exitCode(ctx, err)
	if line := errorLine(cmd.CommandPath(), err); line != "" {
		fmt.Fprintln(stderr, line)
	}
	return code
}

// interruption is the cause of a context that a signal cancelled.
type interruption struct{ signal syscall.Signal }

func (i interruption) Error() string {
	if i.signal == syscall.SIGINT {
		return "interrupted"
	}
	return "ended by " + i.signal.String()
}

// signalContext is cancelled by the first SIGINT or SIGTERM; the second calls
// exit. The returned function gives the signals back to the runtime.
func signalContext(parent context.Context, exit func(int)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case s := <-signals:
				number, ok := s.(syscall.Signal)
				if !ok {
					continue
				}
				if n > 0 {
					exit(128 + int(number))
					return
				}
				cancel(interruption{number})
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// usageError is a wrong command line: exit code 2 and a pointer to --help.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// silentError ends the command with exit code 1 after it has itself said why
// (a report with failures in it).
type silentError struct{}

func (silentError) Error() string { return "failed" }

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var signalled interruption
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(context.Cause(ctx), &signalled):
		return 128 + int(signalled.signal)
	default:
		return ExitFailure
	}
}

// errorLine is what goes to standard error: "command: what; fix" on one line.
func errorLine(command string, err error) string {
	var silent silentError
	var usage usageError
	switch {
	case err == nil, errors.As(err, &silent):
		return ""
	case errors.As(err, &usage):
		return fmt.Sprintf("%s: %s (see `%s --help`)", command, oneLine(err), command)
	default:
		return fmt.Sprintf("%s: %s", command, oneLine(err))
	}
}

// oneLine joins the lines of an error (errors.Join, output of a child).
func oneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}
