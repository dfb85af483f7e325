package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/ucx"
)

// infoReport is the output of `millstream info --json`.
type infoReport struct {
	Version string      `json:"version"`
	UCX     *ucxReport  `json:"ucx,omitempty"`
	Error   string      `json:"error,omitempty"`
	GPUs    []gpuReport `json:"gpus"`
	// GPUNote is the reason if there are none.
	GPUNote string `json:"gpu_note,omitempty"`
}

type ucxReport struct {
	Path       string            `json:"path"`
	Version    string            `json:"version"`
	CUDA       bool              `json:"cuda"`
	RDMA       bool              `json:"rdma"`
	PassedOver []string          `json:"passed_over,omitempty"`
	Transports []transportReport `json:"transports"`
	Config     map[string]string `json:"config,omitempty"`
}

type transportReport struct {
	Transport string   `json:"transport"`
	Devices   []string `json:"devices"`
}

type gpuReport struct {
	Index  int    `json:"index"`
	Name   string `json:"name"`
	UUID   string `json:"uuid"`
	Memory int64  `json:"memory"`
}

func infoCommand() *cobra.Command {
	var asJSON, config, wiring bool
	var match string
	cmd := &cobra.Command{
		Use:     "info",
		Short:   "Show the UCX library, its transports, devices and settings, and the GPUs",
		GroupID: groupStart,
		Long: `Show the UCX library that Millstream uses and what it supports on this machine.
With --topology, show the topology of GPUs, network devices and processors
instead: the tree of nodes and PCI bridges, and for each GPU the closest
processors and InfiniBand port, with the distances of nvidia-smi (PIX, PXB, PHB,
NODE, SYS). This needs neither UCX nor a driver.

Exit code: 1 if UCX cannot be used, else 0.`,
		Example: `  millstream info
  millstream info --config
  millstream info --config --match RNDV
  millstream info --topology
  UCX_TLS=tcp millstream info`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if match != "" && !config {
				return cmdline.Usagef("--match needs --config")
			}
			if wiring {
				if config {
					return cmdline.Usagef("--topology and --config exclude each other")
				}
				return writeTopology(cmd.OutOrStdout(), asJSON)
			}
			report, err := collectInfo(config, match)
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				if jerr := enc.Encode(report); jerr != nil {
					return jerr
				}
			} else {
				report.write(cmd.OutOrStdout(), config)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "output as JSON")
	cmd.Flags().BoolVar(&config, "config", false, "effective settings of UCX in the output")
	cmd.Flags().BoolVar(&wiring, "topology", false, "topology of GPUs, network devices and processors")
	cmd.Flags().StringVar(&match, "match", "", "text in the names of the settings; needs --config")
	return cmd
}

// collectInfo collects the report from UCX and the CUDA driver. The error is the reason why UCX cannot be used; the
// report is valid even then.
func collectInfo(config bool, match string) (infoReport, error) {
	r := infoReport{Version: Version()}
	r.GPUs, r.GPUNote = findGPUs()
	lib, err := ucx.Library()
	if err != nil {
		r.Error = err.Error()
		return r, err
	}
	r.UCX = &ucxReport{Path: lib.Path, Version: lib.Version, CUDA: lib.CUDA, RDMA: lib.RDMA, PassedOver: lib.PassedOver}
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		r.Error = err.Error()
		return r, err
	}
	defer c.Close()
	info := c.Info()
	r.UCX.Transports = groupTransports(info.Transports)
	if config {
		r.UCX.Config = map[string]string{}
		for name, value := range info.Options {
			if strings.Contains(strings.ToUpper(name), strings.ToUpper(match)) {
				r.UCX.Config[name] = value
			}
		}
	}
	return r, nil
}

// groupTransports merges "tcp/lo" and "tcp/eth0" into one entry, in order.
func groupTransports(resources []string) []transportReport {
	var groups []transportReport
	for _, name := range transportNames(resources) {
		g := transportReport{Transport: name, Devices: []string{}}
		for _, r := range resources {
			if t, device, ok := strings.Cut(r, "/"); ok && t == name {
				g.Devices = append(g.Devices, device)
			}
		}
		groups = append(groups, g)
	}
	return groups
}

func (r infoReport) write(w io.Writer, config bool) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("millstream", "%s", r.Version)
	if r.UCX == nil {
		line("ucx", "not available")
	} else {
		line("ucx", "%s", r.UCX.Version)
		line("library", "%s", r.UCX.Path)
		line("built with", "%s", strings.Join(builtWith(r.UCX), ", "))
		for _, other := range r.UCX.PassedOver {
			line("passed over", "%s", other)
		}
		for i, t := range r.UCX.Transports {
			name := ""
			if i == 0 {
				name = "transports"
			}
			line(name, "%-10s %s", t.Transport, strings.Join(t.Devices, " "))
		}
	}
	if len(r.GPUs) == 0 {
		line("gpus", "none (%s)", r.GPUNote)
	}
	for _, g := range r.GPUs {
		line(fmt.Sprintf("gpu %d", g.Index), "%s, %s, %s", g.Name, benchfmt.FormatSize(g.Memory), g.UUID)
	}
	if config && r.UCX != nil {
		fmt.Fprintln(w)
		for _, name := range sortedKeys(r.UCX.Config) {
			fmt.Fprintf(w, "%s=%s\n", name, r.UCX.Config[name])
		}
	}
}

func builtWith(u *ucxReport) []string {
	with := func(name string, on bool) string {
		if on {
			return name
		}
		return "no " + name
	}
	return []string{with("CUDA", u.CUDA), with("RDMA", u.RDMA)}
}

// findGPUs returns the GPUs that this process may use, or the reason if there are none.
func findGPUs() ([]gpuReport, string) {
	devices, err := cuda.Devices()
	if err != nil {
		return []gpuReport{}, err.Error()
	}
	gpus := make([]gpuReport, 0, len(devices))
	for _, d := range devices {
		gpus = append(gpus, gpuReport{Index: d.Ordinal, Name: d.Name, UUID: d.UUID, Memory: d.TotalMemory})
	}
	if len(gpus) == 0 {
		return gpus, "the CUDA driver reports no device"
	}
	return gpus, ""
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
