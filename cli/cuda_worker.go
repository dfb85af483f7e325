package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/cmdline"
)

const cudaWorkerLong = `Run one worker process for each GPU, for a Millstream or Dask scheduler. The
flags are those of ` + "`dask cuda worker`" + ` (formerly ` + "`dask-cuda-worker`" + `) and of
` + "`millstream worker`" + `.

Each process sees its own GPU as device 0 (CUDA_VISIBLE_DEVICES is rotated) and
runs on the processors next to it that this process may use. A GPU that is
listed twice has two workers. --print-plan prints this plan and starts nothing.

Transports
  Each --enable-… has a --disable-…. Without either, UCX chooses; a disabled
  transport is never used, whatever UCX_TLS says. --net-devices auto is the
  InfiniBand port next to each GPU.

Sizes of GPU memory are bytes (24GB, 1.5GiB) or a fraction of the GPU of the
worker (0.8).`

// cudaFlags are the flags of `cuda-worker`: those of `worker`, and those for GPUs.
type cudaFlags struct {
	workerFlags
	gpus      cluster.CUDAConfig
	devices   string
	warmUp    []string
	printPlan bool
	asJSON    bool
	off       map[string]*bool // --disable-… of switches that do not belong to UCX
}

// pythonOnly has the options of `dask cuda worker` for Python libraries.
var pythonOnly = map[string]string{
	"pre-import": "Python modules are not supported; --warm-up takes registered Go functions, and " +
		"Python tasks import what they need",
	"enable-cudf-spill":          "cuDF is a Python library; use `dask cuda worker`",
	"cudf-spill-stats":           "cuDF is a Python library; use `dask cuda worker`",
	"set-rmm-allocator-for-libs": "CuPy and PyTorch are Python libraries; use `dask cuda worker`",
	"enable-jit-unspill": "removed from Dask-CUDA; --device-memory-limit moves " +
		"results off a GPU",
	"multiprocessing-method": "worker processes always run this program",
}

func cudaWorkerCommand() *cobra.Command {
	f := &cudaFlags{off: map[string]*bool{}}
	return f.command()
}

func (f *cudaFlags) command() *cobra.Command {
	cmd := workerCommandFor(&f.workerFlags)
	cmd.Use, cmd.Short, cmd.Long = "cuda-worker [SCHEDULER]", "Run one worker for each GPU", cudaWorkerLong
	cmd.Example = `  millstream cuda-worker ucxx://10.0.0.1:8786 --insecure --enable-nvlink \
    --enable-infiniband --enable-rdmacm --net-devices auto --rmm-pool-size 30GB
  millstream cuda-worker --scheduler-file s.json --devices 0,0 --print-plan`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.run(cmd, strings.Join(args, ""))
	}
	fs := cmd.Flags()
	fs.StringVar(&f.devices, "devices", "", "GPUs: 0,1 or GPU-… or MIG-… (default: all visible GPUs)")
	fs.StringVar(&f.gpus.DeviceMemoryLimit, "device-memory-limit", "default", "limit of results on a GPU: size, auto "+
		"(all), 0 for none, default (0.8)")
	fs.StringVar(&f.gpus.RMM.MaximumPoolSize, "rmm-maximum-pool-size", "", "maximum size of the pool "+
		"(default: the GPU)")
	fs.StringVar(&f.gpus.RMM.ReleaseThreshold, "rmm-release-threshold", "", "memory that the pool of the driver "+
		"keeps; needs "+
		"--rmm-async")
	fs.StringVar(&f.gpus.RMM.LogDirectory, "rmm-log-directory", "", "folder for logs of allocations of each worker")
	for _, b := range []struct {
		name  string
		v     *bool
		usage string
	}{
		{"rmm-managed-memory", &f.gpus.RMM.ManagedMemory, "managed memory, which moves between GPU and host; not " +
			"with NVLink"},
		{"rmm-async", &f.gpus.RMM.Async, "memory pool of the driver (cuMemAllocAsync)"},
		{"rmm-track-allocations", &f.gpus.RMM.TrackAllocations, "stack trace of each allocation"},
	} {
		fs.BoolVar(b.v, b.name, false, b.usage)
		f.off[b.name] = fs.Bool("disable-"+b.name, false, "")
		_ = fs.MarkHidden("disable-" + b.name)
	}
	fs.StringSliceVar(&f.warmUp, "warm-up", nil, "registered functions that a worker calls before it joins")
	fs.BoolVar(&f.printPlan, "print-plan", false, "plan only: print what would be started")
	fs.BoolVar(&f.asJSON, "json", false, "plan as JSON; needs --print-plan")
	for name := range pythonOnly {
		fs.String(name, "", "")
		fs.Lookup(name).NoOptDefVal = "true"
		_ = fs.MarkHidden(name)
	}
	for _, name := range []string{"nworkers", "nanny", "no-nanny", "listen-address", "contact-address",
		"lifetime-restart"} {
		_ = fs.MarkHidden(name)
	}
	fs.Lookup("nthreads").Usage = "number of concurrent tasks of each worker (default 1)"
	fs.Lookup("name").Usage = "unique name; with several GPUs a number is appended"
	fs.Lookup("memory-limit").Usage = "memory limit of each process: bytes (4GB), a fraction (0.5), auto (its " +
		"share), or 0 for none"
	fs.Lookup("rmm-pool-size").Usage = "initial size of the GPU memory pool (default no pool)"
	return cmd
}

// options returns the GPU configuration of the flags.
func (f *cudaFlags) options(cmd *cobra.Command) (cluster.CUDAConfig, error) {
	o := f.gpus
	for _, name := range []string{"nworkers", "nanny", "no-nanny"} {
		if cmd.Flags().Changed(name) {
			return o, cmdline.Usagef("--%s: there is one worker process for each GPU; use --devices", name)
		}
	}
	for name, why := range pythonOnly {
		if cmd.Flags().Changed(name) {
			return o, cmdline.Usagef("--%s: %s", name, why)
		}
	}
	for name, off := range f.off {
		if *off && cmd.Flags().Changed(name) {
			return o, cmdline.Usagef("--%s and --disable-%s exclude each other", name, name)
		}
	}
	// Here the pool may be a fraction of the GPU, which the other commands do not support.
	o.RMM.PoolSize, f.ucx.pool = f.ucx.pool, ""
	ucx, err := f.ucx.overrides()
	if err != nil {
		return o, err
	}
	o.UCX = ucx.UCX
	if f.devices != "" {
		for d := range strings.SplitSeq(f.devices, ",") {
			o.Devices = append(o.Devices, strings.TrimSpace(d))
		}
	}
	o.Threads, o.Name, o.Interface, o.MemoryLimit, o.WarmUp = cmp.Or(f.nthreads, 1), f.name, f.iface, f.memoryLimit,
		f.warmUp
	o.NoDataConnections, o.Protocol = f.dataConnections == "none", f.protocol
	if err := o.Check(); err != nil {
		return o, cmdline.Usage(err)
	}
	return o, nil
}

func (f *cudaFlags) run(cmd *cobra.Command, address string) error {
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	f.nworkers = cmp.Or(f.nworkers, "1")
	if f.asJSON && !f.printPlan {
		return cmdline.Usagef("--json needs --print-plan")
	}
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	log, err := f.log.New(stderr)
	if err != nil {
		return cmdline.Usage(err)
	}
	if o.Protocol == "" {
		o.Protocol, _, _ = strings.Cut(address, "://")
		if o.Protocol == address {
			o.Protocol = "" // the address has no scheme
		}
	}
	machine, err := cluster.ThisCUDAMachine()
	if err != nil {
		return err
	}
	plan, err := o.Plan(machine)
	if err != nil {
		return err
	}
	if f.printPlan {
		return writePlan(stdout, plan, f.asJSON)
	}
	for _, w := range plan.Warnings {
		log.Warn("GPU worker plan", "warning", w)
	}
	return f.start(ctx, plan, address, cmd)
}

// writePlan prints a plan.
func writePlan(w io.Writer, plan *cluster.CUDAPlan, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(plan)
	}
	_, err := io.WriteString(w, plan.String())
	return err
}

// start runs the workers of a plan until they end.
func (f *cudaFlags) start(ctx context.Context, plan *cluster.CUDAPlan, address string, cmd *cobra.Command) error {
	stderr := cluster.SharedWriter(cmd.ErrOrStderr()) // for two loggers and the output of worker processes
	if err := checkPorts("--worker-port", f.workerPort, len(plan.Workers)); err != nil {
		return err
	}
	p, err := f.prepare(ctx, address, stderr)
	if err != nil {
		return err
	}
	defer p.undo()
	listen, err := f.nannyAddress(&p.specs[0])
	if err != nil {
		return err
	}
	specs, env := make([]cluster.WorkerSpec, len(plan.Workers)), make([][]string, len(plan.Workers))
	for i, w := range plan.Workers {
		specs[i], env[i] = w.Spec(p.specs[0]), w.Env
		if f.name == "" {
			specs[i].Name = "" // workers on other machines would have the same numbers
		}
	}
	announce := newAnnouncer(cmd.OutOrStdout(), p.link)
	cfg, err := f.nannyConfig(listen, &p, stderr, announce)
	if err != nil {
		return err
	}
	return runNannies(ctx, specs, env, cfg, p.timeout)
}

// checkPorts checks that a range has a port for each process.
func checkPorts(flag, ports string, n int) error {
	first, last, ok := strings.Cut(ports, ":")
	from, errFrom := strconv.Atoi(first)
	to, errTo := strconv.Atoi(last)
	switch {
	case ports == "" || ports == "0":
		return nil
	case !ok && n > 1:
		return cmdline.Usagef("%s %s: too few ports for %d workers; use a range such as %s", flag, ports, n,
			fmt.Sprintf("%s:%d", ports, from+n-1))
	case ok && errFrom == nil && errTo == nil && to-from+1 < n:
		return cmdline.Usagef("%s %s: %[4]d ports are too few for %[3]d workers", flag, ports, n, to-from+1)
	}
	return nil
}
