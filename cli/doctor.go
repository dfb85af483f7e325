package cli

import (
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/cli/internal/doctor"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/comm/ucxenv"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/secure"
	"go.millstream.dev/ucx"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	var connections int
	var python, size string
	var pids []int
	trust := serverFlags{role: secure.Client}
	cmd := &cobra.Command{
		Use:     "doctor [SCHEDULER]",
		Short:   "Find what this machine lacks for fast communication, and how to fix it",
		GroupID: groupStart,
		Long: `Examine the machine and the process: UCX library, GPU, RDMA, containers, limits,
UCX_* variables, Python. Every problem comes with a fix.

With the address of a scheduler, measure the connections between the workers of
its cluster instead: which transport each pair uses, how fast it is, and why not
a faster one. With two --pid, report what two processes share, such as those of
two containers, seen from the host.

  ✓ ok   - does not apply   · no faster transport   ! slow, less safe   ✗ broken

Exit code: 1 if there is a failure (✗), else 0.`,
		Example: `  millstream doctor
  millstream doctor --connections 5000
  millstream doctor tls://10.0.0.1:8786 --tls-dir certs
  millstream doctor --pid 4711 --pid 4712
  millstream doctor --json | jq '.findings[] | select(.severity == "warn")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !strings.Contains(args[0], "://") {
				return cmdline.Usagef("unexpected argument %q: want a scheduler address with a scheme, such as tcp://",
					args[0])
			}
			return cmdline.NoArgs(nil, args[min(1, len(args)):])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if connections < 0 {
				return cmdline.Usagef("--connections must not be negative")
			}
			var report doctor.Report
			switch {
			case len(pids) > 0 && (len(pids) != 2 || len(args) > 0):
				return cmdline.Usagef("--pid: pass two processes, and no scheduler")
			case len(pids) > 0:
				report = doctor.Between(doctor.ThisHost(), pids[0], pids[1])
			case len(args) > 0:
				bytes, err := config.ParseBytes(size)
				if err != nil || bytes < 1<<10 || bytes > 1<<30 {
					return cmdline.Usagef("--size %s: want 1KiB to 1GiB", size)
				}
				_, restore, err := trust.apply()
				if err != nil {
					return err
				}
				defer restore()
				if report, err = examineCluster(cmd.Context(), args[0], bytes); err != nil {
					return err
				}
			default:
				host := examineHost(connections)
				host.Python = examinePython(cmd.Context(), python)
				examineGPUs(host)
				report = doctor.Examine(host)
			}
			out := cmd.OutOrStdout()
			var err error
			if asJSON {
				err = report.WriteJSON(out)
			} else {
				err = report.WriteText(out, useColor(out))
			}
			if err == nil && report.Worst() == doctor.Fail {
				err = cmdline.SilentError{}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "output as JSON")
	cmd.Flags().IntVar(&connections, "connections", 256, "expected number of peers of this process, for the "+
		"check of the open-file limit")
	cmd.Flags().StringVar(&python, "python", "", "interpreter of the scheduler (default: searched for)")
	cmd.Flags().IntSliceVar(&pids, "pid", nil, "two processes whose common namespaces and transports are reported")
	cmd.Flags().StringVar(&size, "size", "16MiB", "size of the data moved between each two workers")
	cmd.Flags().StringVar(&trust.tlsDir, "tls-dir", "", "folder with the certificates of the cluster")
	return cmd
}

// useColor follows the NO_COLOR convention.
func useColor(w io.Writer) bool {
	return benchfmt.IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// examineHost describes this machine, with the information of the UCX library.
func examineHost(connections int) *doctor.Host {
	h := doctor.ThisHost()
	h.Connections = connections
	h.NoCgo = builtWithoutCgo()
	known := ucxenv.Host{}
	known.NetDevices, known.RDMA = ucxenv.ReadNetDevices(os.DirFS("/sys"))
	lib, err := ucx.Library()
	if err != nil {
		h.UCXError = err
	} else {
		h.UCX = &doctor.Library{Path: lib.Path, Version: lib.Version, CUDA: lib.CUDA, RDMA: lib.RDMA,
			PassedOver: lib.PassedOver}
		known.Version = lib.Version
		// The variables to be examined can make NewContext fail; the lint then works without the lists of the library.
		if c, err := ucx.NewContext(ucx.Config{}); err == nil {
			info := c.Info()
			h.UCX.Transports = transportNames(info.Transports)
			known.Transports = h.UCX.Transports
			known.Options = slices.Sorted(maps.Keys(info.Options))
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

// transportNames returns the transports of resources such as "tcp/eth0", each once.
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
