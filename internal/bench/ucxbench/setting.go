package ucxbench

import (
	"slices"
	"strings"
)

// SettingNames are the transports that can be asked for.
var SettingNames = []string{"shm", "tcp", "auto", "cuda_ipc"}

// ModeNames are the ways of making progress.
var ModeNames = []string{"spin", "adaptive"}

// MemNames are the kinds of payload memory.
var MemNames = []string{MemHeap, MemBuffer, MemCUDA, MemPool}

// Kinds of payload memory.
const (
	// MemHeap is a Go slice.
	MemHeap = "heap"
	// MemBuffer is a mem.Buffer of host memory.
	MemBuffer = "buffer"
	// MemCUDA is a mem.Buffer of device memory, an allocation of its own.
	MemCUDA = "cuda"
	// MemPool is a mem.Buffer out of a pool of device memory.
	MemPool = "cuda-pool"
)

// onDevice says whether a kind of memory is a GPU's.
func onDevice(memory string) bool { return memory == MemCUDA || memory == MemPool }

// SettingEnv are the variables that make UCX use a setting, for this run's
// children only. "auto" sets nothing: UCX chooses, or what the user exported.
func SettingEnv(setting, memory string) ([]string, error) {
	var tls []string
	switch setting {
	case "auto":
		return nil, nil
	case "shm":
		tls = []string{"self", "shm"}
	case "tcp":
		tls = []string{"self", "tcp"}
	case "cuda_ipc":
		// tcp carries the wire-up where shared memory cannot.
		tls = []string{"self", "shm", "tcp", "cuda_ipc"}
	default:
		return nil, unknown("setting", setting, SettingNames)
	}
	if onDevice(memory) || setting == "cuda_ipc" {
		tls = append(tls, "cuda_copy")
	}
	return []string{"UCX_TLS=" + strings.Join(tls, ",")}, nil
}

func checkName(what, got string, known []string) error {
	if !slices.Contains(known, got) {
		return unknown(what, got, known)
	}
	return nil
}
