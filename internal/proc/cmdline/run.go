package cmdline

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

	"go.millstream.dev/internal/proc/stdio"
)

// Exit codes of programs.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 128 + int(syscall.SIGINT)
	ExitTerminated  = 128 + int(syscall.SIGTERM)
)

// RunProcess runs a command line in this process, which ends on Ctrl-C and SIGTERM, and returns its exit code.
func RunProcess(root *cobra.Command, args []string) int {
	ctx, stop := signalContext(context.Background(), os.Exit)
	defer stop()
	return Run(ctx, root, args, os.Stdin, stdio.Claim(), os.Stderr)
}

// Run runs one command line and returns the exit code. An error is written to stderr as one line. Canceling ctx ends
// the command.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
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

// Interruption is the cause of a context that a signal canceled.
type Interruption struct{ Signal syscall.Signal }

func (i Interruption) Error() string {
	if i.Signal == syscall.SIGINT {
		return "interrupted"
	}
	return "ended by " + i.Signal.String()
}

// signalContext returns a context that the first SIGINT or SIGTERM cancels; the second calls exit. The returned
// function returns the signals to the runtime.
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
				cancel(Interruption{number})
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// UsageError is returned for an invalid command line: exit code 2 and a hint to --help.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

// Usage returns err as a UsageError.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a formatted UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// SilentError ends a command with exit code 1 after it has reported the failure itself, such as a report with failures.
type SilentError struct{}

func (SilentError) Error() string { return "failed" }

// ExitError ends a command with the exit code of another program, which has reported the failure.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

func exitCode(ctx context.Context, err error) int {
	var usage UsageError
	var signaled Interruption
	var other ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &other):
		return other.Code
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(context.Cause(ctx), &signaled):
		return 128 + int(signaled.Signal)
	default:
		return ExitFailure
	}
}

// errorLine returns the text for standard error: "command: what; fix" on one line.
func errorLine(command string, err error) string {
	var silent SilentError
	var other ExitError
	var usage UsageError
	switch {
	case err == nil, errors.As(err, &silent), errors.As(err, &other):
		return ""
	case errors.As(err, &usage):
		return fmt.Sprintf("%s: %s (see `%s --help`)", command, OneLine(err), command)
	default:
		return fmt.Sprintf("%s: %s", command, OneLine(err))
	}
}

// OneLine joins the lines of an error (errors.Join, output of a child).
func OneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}
