package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// String returns a description of the plan: one line for each worker, followed by one for each of its properties.
func (p *CUDAPlan) String() string {
	var b strings.Builder
	for _, w := range p.Workers {
		fmt.Fprintf(&b, "worker %s on %s (device %s)\n", w.Name, w.GPU, w.Device)
		line := func(name, value string) {
			if value != "" {
				fmt.Fprintf(&b, "  %-26s %s\n", name, value)
			}
		}
		line("environment", strings.Join(w.Env, " "))
		line("processors", cmp.Or(w.CPUs, "all processors of this process"))
		line("threads", fmt.Sprint(w.Threads))
		line("memory", limitText(w.MemoryLimit))
		if w.Setup != nil {
			line("GPU memory", w.Setup.String())
		}
		for _, k := range slices.Sorted(maps.Keys(w.UCX.Options)) {
			line("UCX_"+k, w.UCX.Options[k])
		}
		line("warm-up", strings.Join(w.WarmUp, ", "))
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

func limitText(n int64) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d bytes", n)
}

// String returns a description of the configuration of the GPU.
func (d DeviceSpec) String() string {
	parts := []string{"results: " + limitText(d.MemoryLimit)}
	kind := "pool"
	switch {
	case d.Managed:
		kind = "pool of managed memory"
	case d.Async:
		kind = "pool of the driver"
	}
	switch {
	case d.PoolSize > 0 && d.MaximumPoolSize > 0:
		parts = append(parts, fmt.Sprintf("%s: %d to %d bytes", kind, d.PoolSize, d.MaximumPoolSize))
	case d.PoolSize > 0:
		parts = append(parts, fmt.Sprintf("%s: %d bytes and more", kind, d.PoolSize))
	case d.Async, d.Managed:
		parts = append(parts, strings.TrimPrefix(kind, "pool of "))
	}
	if d.ReleaseThreshold > 0 {
		parts = append(parts, fmt.Sprintf("keeps %d bytes", d.ReleaseThreshold))
	}
	if d.Log != "" {
		parts = append(parts, "log "+d.Log)
	}
	if d.Track {
		parts = append(parts, "tracked")
	}
	return strings.Join(parts, ", ")
}
