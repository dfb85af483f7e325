// Package flow explains why data between two workers does not take a faster path.
package flow

import (
	"cmp"
	"slices"
	"strings"
)

// Levels of Faster, the severities of doctor.
const (
	OK   = "ok"
	Info = "info"
	Warn = "warn"
)

// Member is a worker of a cluster, as it describes itself.
type Member struct {
	// Name is its name, Address its address.
	Name, Address string
	// Silent is the reason if it sent no description, as Python workers do.
	Silent string
	// Boot identifies its machine, IPC and PID its namespaces.
	Boot, IPC, PID string
	// DataAddresses are the addresses of its data connections; Trusted allows them to other machines.
	DataAddresses []string
	Trusted       bool
	// NoUCX is the reason if UCX cannot be used there, "" if it can.
	NoUCX string
	// GPU is the UUID of its GPU, "" without one.
	GPU string
}

// Flow is a measured transfer from one worker to another.
type Flow struct {
	From, To Member
	// Scheme is the scheme of the connection, "" if unknown.
	Scheme string
	// Transports are the transports of UCX, as far as known.
	Transports []string
	// Device reports whether the data was in GPU memory, Landed whether it arrived in GPU memory.
	Device, Landed bool
	// Rate is in bytes per second, 0 if it was not measured.
	Rate float64
	// Err is the reason if nothing arrived.
	Err error
}

// sharedMemory are the transports of UCX between processes of one machine.
var sharedMemory = []string{"posix", "sysv", "cma", "knem", "xpmem"}

// inner checks the transports that UCX has chosen.
func (f *Flow) inner(here bool) (level, why, fix string) {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(f.Transports, name) })
	}
	rdma := slices.ContainsFunc(f.Transports, func(t string) bool {
		return strings.HasPrefix(t, "rc") || strings.HasPrefix(t, "dc") || strings.HasPrefix(t, "ud") ||
			strings.HasPrefix(t, "gdr")
	})
	switch {
	case len(f.Transports) == 0:
		return OK, "", ""
	case f.Device && here && !has("cuda_ipc"):
		return Warn, "Device memory is staged through host memory: UCX has no cuda_ipc between them although they " +
				"are on " +
				"one machine. UCX_TLS or --disable-nvlink excludes it, or the GPUs cannot access each other.",
			"unset UCX_TLS, remove --disable-nvlink, and run `millstream doctor` on the machine (gpu-peers)"
	case f.Device && !here && !rdma:
		return Info, "Device memory is staged through host memory: there is no InfiniBand or RoCE " +
				"between them.", "with such a network, start workers with --enable-infiniband and run `millstream " +
				"doctor` there (rdma, gpudirect)"
	case !f.Device && here && !has(sharedMemory...):
		return Warn, "UCX uses " + strings.Join(f.Transports, ", ") + " and no shared memory between two processes " +
				"of one machine: UCX_TLS excludes it, /dev/shm is missing, or their releases of UCX differ.",
			"unset UCX_TLS in the environment of both, and run `millstream doctor` there"
	}
	return OK, "", ""
}

// Faster returns how severe it is that a flow was not faster, why it was not, and what to do; OK and "" if it was.
func (f *Flow) Faster() (level, why, fix string) {
	fast := func(m Member) bool { return len(m.DataAddresses) > 0 || strings.HasPrefix(m.Address, "ucx") }
	here := f.From.Boot != "" && f.From.Boot == f.To.Boot
	overUCX := f.Scheme == "ucx" || f.Scheme == "ucxx"
	var borders []string
	if f.From.IPC != f.To.IPC {
		borders = append(borders, "IPC")
	}
	if f.From.PID != f.To.PID {
		borders = append(borders, "PID")
	}
	for _, m := range []Member{f.From, f.To} {
		switch {
		case m.Silent != "":
			return Info, m.Name + " did not describe its connections: " + m.Silent, "use Millstream workers on both " +
				"sides"
		case m.NoUCX != "":
			return Warn, m.Name + " cannot use UCX: " + m.NoUCX, "install libucx0 there, and run `millstream doctor` " +
				"on its machine"
		}
	}
	switch {
	case f.Scheme == "inproc":
		return OK, "", ""
	case f.Device && !f.Landed && !overUCX:
		return Warn, "GPU memory arrived in host memory: " + cmp.Or(f.Scheme, "their connection") +
			" does not transfer device memory.", "start workers with --protocol ucxx, or with --data-connections auto"
	case f.Device && f.Landed && slices.Contains(f.Transports, "cuda_ipc"):
		return OK, "", "" // CUDA IPC works between them
	case here && len(borders) > 0:
		return Warn, "The workers are on one machine in different " + strings.Join(borders, " and ") +
				" namespaces: shared memory and CMA do not work, and CUDA IPC only with some releases; UCX uses " +
				cmp.Or(strings.Join(f.Transports, ", "), "TCP") + ".",
			"share the namespaces: one container with `--ipc=shareable`, the others with `--ipc=container:NAME " +
				"--pid=container:NAME`; or one pod"
	case overUCX:
		return f.inner(here)
	case here && !fast(f.From):
		return Warn, f.From.Name + " was started without data connections.", "start the worker with " +
			"`--data-connections auto`, " +
			"or with an " +
			"address ucxx://"
	case here && !fast(f.To):
		return Warn, f.To.Name + " was started without data connections.", "start the worker with " +
			"`--data-connections auto`, " +
			"or with an " +
			"address ucxx://"
	case here:
		return Warn, "Both have data connections and did not use them: one has failed before, and is retried " +
			"after a while.", "search the logs of both workers for \"data connection\""
	case !f.From.Trusted || !f.To.Trusted:
		return Info, "The workers are on different machines, and data connections, which are not encrypted, are " +
			"used on one unless they " +
			"are trusted.", "on a network that you trust, start both with `--data-connections trusted`"
	}
	return Warn, "The workers are on different machines with trusted data connections and did not use them.",
		"search the logs of both workers for \"data connection\"; its address must be reachable"
}
