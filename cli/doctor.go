package cli

import (
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/benchfmt"
	"go.millstream.dev/internal/doctor"
	"go.millstream.dev/internal/ucxenv"
	"go.millstream.dev/ucx"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	var connections int
	var python string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Find what this machine lacks for fast communication, and how to fix it",
		GroupID: groupStart,
		Long: `Examines the machine and the process: UCX library, GPU, RDMA, containers, limits,
UCX_* variables, Python. Every finding says what to do.

  ✓ right   · no faster lane here   ! slower or less safe   ✗ broken

Exit code: 1 when there is a failure (✗), else 0.`,
		Example: `  millstream doctor
  millstream doctor --connections 5000
  millstream doctor --json | jq '.findings[] | select(.severity == "warn")'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if connections < 0 {
				return usagef("--connections must not be negative")
			}
			host := examinedHost(connections)
			host.Python = examinedPython(cmd.Context(), python)
			report := doctor.Examine(host)
			out := cmd.OutOrStdout()
			var err error
			if asJSON {
				err = report.WriteJSON(out)
			} else {
				err = report.WriteText(out, useColour(out))
			}
			if err == nil && report.Worst() == doctor.Fail {
				err = silentError{}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.Flags().IntVar(&connections, "connections", 256, "peers this process is expected to talk to, for the open-file limit")
	cmd.Flags().StringVar(&python, "python", "", "interpreter that the scheduler would use (default: found)")
	return cmd
}

// useColour follows the NO_COLOR convention.
func useColour(w io.Writer) bool {
	return benchfmt.IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// examinedHost is this machine with what the UCX library says of itself.
func examinedHost(connections int) *doctor.Host {
	h := doctor.ThisHost()
	h.Connections = connections
	h.NoCgo = builtWithoutCgo()
	known := ucxenv.Host{}
	known.NetDevices, known.RDMA = ucxenv.ReadNetDevices(os.DirFS("/sys"))
	lib, err := ucx.Library()
	if err != nil {
		h.UCXError = err
	} else {
		h.UCX = &doctor.Library{Path: lib.Path, Version: lib.Version, CUDA: lib.CUDA, RDMA: lib.RDMA, PassedOver: lib.PassedOver}
		known.Version = lib.Version
		// A context can fail because of the very variables to be examined: the
		// lint then works without the library's own lists.
		if c, err := ucx.NewContext(ucx.Config{}); err == nil {
			h.UCX.Transports = transportNames(c.Transports())
			known.Transports = h.UCX.Transports
			for _, option := range c.Config() {
				known.Options = append(known.Options, option.Name)
			}
			c.Close()
		}
	}
	h.LintEnv = func(env []string) []doctor.EnvProblem { return lint(env, known) }
	return h
}

func lint(env []string, known ucxenv.Host) []doctor.EnvProblem {
	var problems []doctor.EnvProblem
	for _, f := range ucxenv.Lint(env, known) {
		severity := doctor.Info
		switch f.Level {
		case ucxenv.Warn:
			severity = doctor.Warn
		case ucxenv.Fail:
			severity = doctor.Fail
		}
		fix := f.Fix
		for _, s := range f.Set {
			fix += "; " + s.String()
		}
		problems = append(problems, doctor.EnvProblem{
			Severity: severity, Name: f.Var + "=" + f.Value, Message: f.Problem, Fix: strings.TrimPrefix(fix, "; "),
		})
	}
	return problems
}

// transportNames cuts the devices off "tcp/eth0" and removes repetitions.
func transportNames(resources []string) []string {
	var names []string
	for _, r := range resources {
		name, _, _ := strings.Cut(r, "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func builtWithoutCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "CGO_ENABLED" && s.Value == "0"
	})
}
