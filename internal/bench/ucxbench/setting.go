package ucxbench

import (
	"slices"
	"strings"
)

// SettingNames are the transports that can be selected.
var SettingNames = []string{"shm", "tcp", "auto", "cuda_ipc"}

// ModeNames are the progress modes.
var ModeNames = []string{"spin", "adaptive"}

// MemNames are the kinds of payload memory.
var MemNames = []string{MemHeap, MemBuffer, MemCUDA, MemPool}

// Kinds of payload memory.
const (
	// MemHeap is a Go slice.
	MemHeap = "heap"
	// MemBuffer is a mem.Buffer of host memory.
	MemBuffer = "buffer"
	// MemCUDA is a mem.Buffer of device memory in a separate allocation.
	MemCUDA = "cuda"
	// MemPool is a mem.Buffer from a pool of device memory.
	MemPool = "cuda-pool"
)

// onDevice reports whether a kind of memory is GPU memory.
func onDevice(memory string) bool { return memory == MemCUDA || memory == MemPool }

// SettingEnv returns the variables that make UCX use a setting, for the children of this run. "auto" sets nothing: UCX
// or the environment of the user chooses.
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
		// tcp is used for the wire-up if shared memory cannot be.
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
