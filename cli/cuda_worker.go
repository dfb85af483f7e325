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

const cudaWorkerLong = `Runs one worker process for each GPU, which join a scheduler, Millstream's or
Dask's. The flags are those of ` + "`dask cuda worker`" + `, of ` + "`dask-cuda-worker`" + ` before
it, and of ` + "`millstream worker`" + `.

Each process sees its own GPU as device 0 (CUDA_VISIBLE_DEVICES is rotated) and
runs on the processors next to it that this process may use. A GPU that is
listed twice has two workers. --print-plan shows all that and starts nothing.

Transports
  Each --enable-… has its --disable-…. Without either, UCX chooses; what is
  disabled is in no lane, whatever UCX_TLS says. --net-devices auto is the
  InfiniBand port next to each GPU.

Sizes of GPU memory are bytes (24GB, 1.5GiB) or a fraction of the worker's own
GPU (0.8).`

// cudaFlags are the flags of `cuda-worker`: those of `worker`, and those about GPUs.
type cudaFlags struct {
	workerFlags
	gpus      cluster.CUDAConfig
	devices   string
	warmUp    []string
	printPlan bool
	asJSON    bool
	off       map[string]*bool // --disable-… of switches that are not UCX's
}

// pythonOnly are options of `dask cuda worker` about Python's libraries.
var pythonOnly = map[string]string{
	"pre-import": "it names Python modules; --warm-up names registered Go functions, and tasks of " +
		"Python import what they need",
	"enable-cudf-spill":          "cuDF is a Python library: use `dask cuda worker` for it",
	"cudf-spill-stats":           "cuDF is a Python library: use `dask cuda worker` for it",
	"set-rmm-allocator-for-libs": "CuPy and PyTorch are Python libraries: use `dask cuda worker` for them",
	"enable-jit-unspill": "it has gone from Dask-CUDA too; --device-memory-limit is what moves " +
		"results off a GPU",
	"multiprocessing-method": "worker processes are this program again: there is nothing to choose",
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
	fs.StringVar(&f.devices, "devices", "", "GPUs: 0,1 or GPU-… or MIG-… (default: those that are visible)")
	fs.StringVar(&f.gpus.DeviceMemoryLimit, "device-memory-limit", "default", "of results on a GPU: size, auto "+
		"(all), 0 for none, default (0.8)")
	fs.StringVar(&f.gpus.RMM.MaximumPoolSize, "rmm-maximum-pool-size", "", "what the pool may grow to "+
		"(default: the GPU)")
	fs.StringVar(&f.gpus.RMM.ReleaseThreshold, "rmm-release-threshold", "", "what the driver's pool keeps; needs "+
		"--rmm-async")
	fs.StringVar(&f.gpus.RMM.LogDirectory, "rmm-log-directory", "", "folder for a log of each worker's allocations")
	for _, b := range []struct {
		name  string
		v     *bool
		usage string
	}{
		{"rmm-managed-memory", &f.gpus.RMM.ManagedMemory, "memory that moves between GPU and host; not with NVLink"},
		{"rmm-async", &f.gpus.RMM.Async, "the driver's own pool (cuMemAllocAsync)"},
		{"rmm-track-allocations", &f.gpus.RMM.TrackAllocations, "remember where each allocation was made"},
	} {
		fs.BoolVar(b.v, b.name, false, b.usage)
		f.off[b.name] = fs.Bool("disable-"+b.name, false, "")
		_ = fs.MarkHidden("disable-" + b.name)
	}
	fs.StringSliceVar(&f.warmUp, "warm-up", nil, "registered functions to call before a worker joins")
	fs.BoolVar(&f.printPlan, "print-plan", false, "print what would be started, and start nothing")
	fs.BoolVar(&f.asJSON, "json", false, "print the plan as JSON; with --print-plan")
	for name := range pythonOnly {
		fs.String(name, "", "")
		fs.Lookup(name).NoOptDefVal = "true"
		_ = fs.MarkHidden(name)
	}
	for _, name := range []string{"nworkers", "nanny", "no-nanny", "listen-address", "contact-address",
		"lifetime-restart"} {
		_ = fs.MarkHidden(name)
	}
	fs.Lookup("nthreads").Usage = "tasks that a worker runs at once (default 1)"
	fs.Lookup("name").Usage = "unique name; with several GPUs a number is appended"
	fs.Lookup("memory-limit").Usage = "of each process: bytes (4GB), a fraction (0.5), auto (its share), 0"
	fs.Lookup("rmm-pool-size").Usage = "first size of the pool of GPU memory (default no pool)"
	return cmd
}

// options are what the flags say about GPUs.
func (f *cudaFlags) options(cmd *cobra.Command) (cluster.CUDAConfig, error) {
	o := f.gpus
	for _, name := range []string{"nworkers", "nanny", "no-nanny"} {
		if cmd.Flags().Changed(name) {
			return o, cmdline.Usagef("--%s: there is one worker process for each GPU; --devices says which", name)
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
	// A pool may be a fraction of the GPU here, which the other commands do not have.
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
	o.NoDataConnections, o.Protocol = f.lanes == "none", f.protocol
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
			o.Protocol = "" // no scheme in it
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
		log.Warn(w)
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
	stderr := cmd.ErrOrStderr()
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
			specs[i].Name = "" // numbers would be those of other machines too
		}
	}
	say := newAnnouncer(cmd.OutOrStdout())
	return runNannies(ctx, specs, env, nannyConfig(listen, &p, stderr, say), p.timeout)
}

// checkPorts wants a range of ports to have one for each process.
func checkPorts(flag, ports string, n int) error {
	first, last, ok := strings.Cut(ports, ":")
	from, errFrom := strconv.Atoi(first)
	to, errTo := strconv.Atoi(last)
	switch {
	case ports == "" || ports == "0":
		return nil
	case !ok && n > 1:
		return cmdline.Usagef("%s %s: %d workers need as many ports: give a range such as %s", flag, ports, n,
			fmt.Sprintf("%s:%d", ports, from+n-1))
	case ok && errFrom == nil && errTo == nil && to-from+1 < n:
		return cmdline.Usagef("%s %s: %d workers need as many ports, and there are %d", flag, ports, n, to-from+1)
	}
	return nil
}
