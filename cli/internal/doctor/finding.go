package doctor

import "cmp"

// Severity specifies how severe a finding is.
type Severity string

// Severities, from harmless to fatal.
const (
	// OK indicates a successful check.
	OK Severity = "ok"
	// NA indicates a check that does not apply to this machine.
	NA Severity = "n/a"
	// Info indicates that nothing is wrong, but a faster transport is not available.
	Info Severity = "info"
	// Warn indicates that communication is slower or less safe than possible on this machine.
	Warn Severity = "warn"
	// Fail indicates that a requested feature does not work.
	Fail Severity = "fail"
)

func (s Severity) rank() int {
	switch s {
	case OK, NA:
		return 0
	case Info:
		return 1
	case Warn:
		return 2
	default:
		return 3
	}
}

// Finding is the result of one check.
type Finding struct {
	// ID is stable across releases, for scripts, such as "ucx-library".
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// Title is one line that states the result.
	Title string `json:"title"`
	// Detail explains the consequence; it may be empty.
	Detail string `json:"detail,omitempty"`
	// Fix says what to do; it is empty only if nothing needs fixing.
	Fix string `json:"fix,omitempty"`
}

// Check is one rule. Run returns at least one finding.
type Check struct {
	ID  string
	Run func(*Host) []Finding
}

// Checks returns all rules, in the order of the report.
func Checks() []Check {
	return []Check{
		{"ucx-library", checkLibrary},
		{"ucx-duplicates", checkDuplicates},
		{"ucx-env", checkEnvironment},
		{"gpu", checkGPU},
		{"gpu-devices", checkDevices},
		{"gpu-peers", checkPeers},
		{"gpu-pool", checkPool},
		{"ucx-cuda", checkCUDASupport},
		{"nccl", checkNCCL},
		{"nvrtc", checkNVRTC},
		{"rdma", checkRDMA},
		{"rdma-libraries", checkRDMALibraries},
		{"gpudirect", checkGPUDirect},
		{"bar1", checkBAR1},
		{"namespaces", checkNamespaces},
		{"ptrace-scope", checkPtrace},
		{"dev-shm", checkSharedMemory},
		{"locked-memory", checkLockedMemory},
		{"open-files", checkOpenFiles},
		{"cpus", checkCPUs},
		{"python", checkPython},
	}
}

// Report has all findings of one examination.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Examine runs all checks on a host.
func Examine(h *Host) Report {
	var r Report
	for _, c := range Checks() {
		for _, f := range c.Run(h) {
			f.ID = cmp.Or(f.ID, c.ID)
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}

// Worst returns the highest severity in the report, OK if it is empty.
func (r Report) Worst() Severity {
	worst := OK
	for _, f := range r.Findings {
		if f.Severity.rank() > worst.rank() {
			worst = f.Severity
		}
	}
	return worst
}

// Count returns the number of findings of one severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

func one(s Severity, title, detail, fix string) []Finding {
	return []Finding{{Severity: s, Title: title, Detail: detail, Fix: fix}}
}
