package mem

import "strconv"

// Kind is the kind of memory of a Region, which determines who may access it.
type Kind uint8

const (
	// Host is ordinary pageable memory of this process.
	Host Kind = iota
	// Pinned is page-locked host memory. Memory pinned by package cuda is also known to
	// the CUDA driver; memory from NewMmap with Lock is locked for the kernel only.
	Pinned
	// Device is memory of one GPU. The CPU must not access it.
	Device
	// Managed is CUDA unified memory: the driver moves its pages between CPU and GPU.
	Managed
)

// String returns "host", "pinned", "device" or "managed".
func (k Kind) String() string {
	switch k {
	case Host:
		return "host"
	case Pinned:
		return "pinned"
	case Device:
		return "device"
	case Managed:
		return "managed"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// HostAccessible reports whether the CPU may read and write the memory directly.
func (k Kind) HostAccessible() bool { return k == Host || k == Pinned || k == Managed }
