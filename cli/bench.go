package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/proc/cmdline"
)

// benchProgram is the program with the benchmarks. It is a separate module, so that other programs do not link them.
const benchProgram = "millstream-bench"

// benchCommand is `bench`, which runs benchProgram with the same arguments.
func benchCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "bench",
		Short:   "Measure Millstream, alone or against peers",
		GroupID: groupMeasure,
		Long: `Run ` + benchProgram + ` with the same arguments; ` + "`millstream bench --help`" + ` prints
its help. The program is next to this one, or on PATH; ` + "`make build`" + ` in the
repository builds both.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := findBench()
			if err != nil {
				return err
			}
			return runBench(cmd.Context(), path, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: completeBench,
	}
}

// helpForBench converts `help bench X` to `bench X --help`, which benchProgram handles.
func helpForBench(args []string) []string {
	if len(args) < 2 || args[0] != "help" || args[1] != "bench" {
		return args
	}
	return append(append([]string{}, args[1:]...), "--help")
}

// findBench returns the path of benchProgram: next to this program, or on PATH.
func findBench() (string, error) {
	exe, err := os.Executable()
	if err == nil {
		path := filepath.Join(filepath.Dir(exe), benchProgram)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	if path, err := exec.LookPath(benchProgram); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s not found in %s or on PATH; run `make build` in the repository and use its "+
		"bin/millstream",
		benchProgram, filepath.Dir(exe))
}

// runBench runs benchProgram. When ctx ends, it forwards the signal that ended ctx, so that the program closes its
// children.
func runBench(ctx context.Context, path string, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	child, err := childproc.Start(cmd, nil)
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	select {
	case <-child.Done:
	case <-ctx.Done():
		_ = cmd.Process.Signal(signalOf(ctx))
		select {
		case <-child.Done:
		case <-time.After(benchStopTime):
			_ = childproc.Kill(cmd)
			<-child.Done
		}
	}
	var exit *exec.ExitError
	switch {
	case child.Err == nil:
		return nil
	case errors.As(child.Err, &exit) && exit.ExitCode() >= 0:
		return cmdline.ExitError{Code: exit.ExitCode()}
	}
	return fmt.Errorf("%s: %w", path, child.Err)
}

// benchStopTime is how long the program may take to end its children after a signal.
const benchStopTime = time.Minute

// signalOf returns the signal that ended a context, SIGINT for other causes.
func signalOf(ctx context.Context) os.Signal {
	var by cmdline.Interruption
	if errors.As(context.Cause(ctx), &by) {
		return by.Signal
	}
	return syscall.SIGINT
}

// completeBench gets completions from benchProgram.
func completeBench(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	path, err := findBench()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out bytes.Buffer
	args = append(append([]string{cobra.ShellCompRequestCmd}, args...), toComplete)
	if err := runBench(cmd.Context(), path, args, nil, &out, io.Discard); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last, ok := strings.CutPrefix(lines[len(lines)-1], ":")
	directive, err := strconv.Atoi(last)
	if !ok || err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
}
