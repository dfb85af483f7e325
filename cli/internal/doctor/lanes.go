package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Member is a worker of a cluster as it tells of itself.
type Member struct {
	// Name is what people call it, Address how others reach it.
	Name, Address string
	// Silent says why it told nothing; a worker of Python has no such answer.
	Silent string
	// Boot identifies its machine, IPC and PID its namespaces.
	Boot, IPC, PID string
	// Lanes are its data lanes; Trusted allows them to other machines.
	Lanes   []string
	Trusted bool
	// NoUCX says why UCX cannot be used there, "" if it can.
	NoUCX string
	// GPU is the UUID of its GPU, "" without one.
	GPU string
}

// Flow is a transfer from one worker to another that was measured.
type Flow struct {
	From, To Member
	// Lane is the scheme of the connection that was used, "" if nobody told.
	Lane string
	// Transports are those of UCX between them, as far as somebody told.
	Transports []string
	// Device tells that what was moved lay in the memory of a GPU, Landed that it came to lie in
	// one.
	Device, Landed bool
	// Rate is in bytes per second; 0 if it was not measured.
	Rate float64
	// Err is why nothing arrived.
	Err error
}

// Judge says of each measured flow which lane it took, how fast, and why not a faster one.
func Judge(flows []Flow) Report {
	var r Report
	for _, f := range flows {
		name := fmt.Sprintf("%s → %s: ", f.From.Name, f.To.Name)
		if f.Device {
			name += "device memory, "
		}
		if f.Err != nil {
			r.Findings = append(r.Findings, Finding{ID: "lane", Severity: Fail, Title: name + "nothing arrived",
				Detail: f.Err.Error(), Fix: "look at the logs of both workers"})
			continue
		}
		title := name + cmp.Or(f.Lane, "lane not told")
		if len(f.Transports) > 0 {
			title += " (" + strings.Join(f.Transports, ", ") + ")"
		}
		if f.Rate > 0 {
			title += fmt.Sprintf(", %.2f GB/s", f.Rate/1e9)
		}
		severity, why, fix := f.faster()
		r.Findings = append(r.Findings, Finding{ID: "lane", Severity: severity, Title: title, Detail: why, Fix: fix})
	}
	return r
}

// sharedMemory are UCX's transports between processes of one machine.
var sharedMemory = []string{"posix", "sysv", "cma", "knem", "xpmem"}

// inner looks at the transports that UCX has chosen for a lane.
func (f *Flow) inner(here bool) (s Severity, why, fix string) {
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
		return Warn, "Device memory goes through host memory: UCX has no cuda_ipc between them although they are on " +
				"one machine. UCX_TLS or --disable-nvlink keeps it out, or the GPUs cannot reach each other.",
			"unset UCX_TLS, leave --enable-nvlink to UCX, and run `millstream doctor` on the machine (gpu-peers)"
	case f.Device && !here && !rdma:
		return Info, "Device memory goes through host memory to the other machine: there is no InfiniBand or RoCE " +
				"between them.", "with such a network, start workers with --enable-infiniband and run `millstream " +
				"doctor` there (rdma, gpudirect)"
	case !f.Device && here && !has(sharedMemory...):
		return Warn, "UCX uses " + strings.Join(f.Transports, ", ") + " and no shared memory between two processes " +
				"of one machine: UCX_TLS keeps it out, /dev/shm is missing, or the two have different releases of UCX.",
			"unset UCX_TLS in the environment of both, and run `millstream doctor` there"
	}
	return OK, "", ""
}

// faster says why a flow did not take a faster lane.
func (f *Flow) faster() (s Severity, why, fix string) {
	fast := func(m Member) bool { return len(m.Lanes) > 0 || strings.HasPrefix(m.Address, "ucx") }
	here := f.From.Boot != "" && f.From.Boot == f.To.Boot
	overUCX := f.Lane == "ucx" || f.Lane == "ucxx"
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
			return Info, m.Name + " tells nothing about its lanes: " + m.Silent, "use Millstream workers on both " +
				"sides for lanes of their own"
		case m.NoUCX != "":
			return Warn, m.Name + " cannot use UCX: " + m.NoUCX, "install libucx0 there, and run `millstream doctor` " +
				"on its machine"
		}
	}
	switch {
	case f.Lane == "inproc":
		return OK, "", ""
	case f.Device && !f.Landed && !overUCX:
		return Warn, "Memory of a GPU arrived in host memory: " + cmp.Or(f.Lane, "their connection") +
			" moves no device memory.", "start workers with --protocol ucxx, or with --lanes auto"
	case f.Device && f.Landed && slices.Contains(f.Transports, "cuda_ipc"):
		return OK, "", "" // it has reached across, whatever is between them
	case here && len(borders) > 0:
		return Warn, "They are on one machine in different " + strings.Join(borders, " and ") +
				" namespaces: shared memory and CMA stop there, and CUDA IPC with many releases; UCX uses " +
				cmp.Or(strings.Join(f.Transports, ", "), "TCP") + ".",
			"share the namespaces: `--ipc=container:NAME --pid=container:NAME`, or one pod"
	case overUCX:
		return f.inner(here)
	case here && !fast(f.From):
		return Warn, f.From.Name + " was started without lanes for data.", "start it with `--lanes auto`, or with an " +
			"address of ucxx://"
	case here && !fast(f.To):
		return Warn, f.To.Name + " was started without lanes for data.", "start it with `--lanes auto`, or with an " +
			"address of ucxx://"
	case here:
		return Warn, "Both have lanes and did not use them: one has failed before, and they are tried again " +
			"after a while.", "look for \"lane\" in the logs of both workers"
	case !f.From.Trusted || !f.To.Trusted:
		return Info, "They are on different machines, and lanes, which are not encrypted, stay on one unless they " +
			"are trusted.", "on a network that you trust, start both with `--lanes trusted`"
	}
	return Warn, "They are on different machines with trusted lanes and did not use them.",
		"look for \"lane\" in the logs of both workers; the lane's address must be reachable"
}
