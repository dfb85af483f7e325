package cli

import (
	"maps"
	"slices"

	"go.millstream.dev/cuda"
)

// findGPUs lists the GPUs this process may use. The text says why there are
// none.
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
