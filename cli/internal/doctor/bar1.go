package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// checkBAR1 checks the size of BAR1, the window through which a network card, or another GPU over PCI, accesses the
// memory of a GPU. Boards without large windows have 256 MiB.
func checkBAR1(h *Host) []Finding {
	const enough = 256 << 20
	var small, large []string
	for _, file := range h.glob("sys/bus/pci/devices/*/vendor") {
		dir := strings.TrimSuffix(file, "vendor")
		if h.read(file) != nvidiaVendor || !strings.HasPrefix(h.read(dir+"class"), "0x03") {
			continue
		}
		address := strings.TrimSuffix(strings.TrimPrefix(dir, "sys/bus/pci/devices/"), "/")
		switch size := largestBAR(h.read(dir + "resource")); {
		case size == 0: // not enabled, or hidden from this process
		case size <= enough:
			small = append(small, fmt.Sprintf("%s: %s", address, mib(size)))
		default:
			large = append(large, fmt.Sprintf("%s: %s", address, mib(size)))
		}
	}
	switch {
	case len(small) > 0:
		return one(Warn, "small windows into GPU memory (BAR1): "+strings.Join(small, ", "),
			"GPUDirect RDMA and copies between GPUs over PCI can map no more GPU memory at a time; a "+
				"larger pool cannot be registered.",
			"enable \"Above 4G decoding\" and \"Resizable BAR\" in the firmware; in a virtual machine, configure a "+
				"large PCI window")
	case len(large) > 0:
		return one(OK, "windows into GPU memory (BAR1): "+strings.Join(large, ", "), "", "")
	}
	return one(NA, "BAR1: no GPU on the bus", "", "")
}

func mib(n uint64) string {
	if n >= 1<<30 && n%(1<<30) == 0 {
		return strconv.FormatUint(n>>30, 10) + " GiB"
	}
	return strconv.FormatUint(n>>20, 10) + " MiB"
}

// largestBAR returns the size of the largest memory window in the file "resource" of a PCI device, which has lines of
// start, end and flags in hexadecimal.
func largestBAR(text string) uint64 {
	const memory = 0x200
	var largest uint64
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > 6 {
			break // ROM and windows of bridges follow
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		start, err1 := strconv.ParseUint(strings.TrimPrefix(f[0], "0x"), 16, 64)
		end, err2 := strconv.ParseUint(strings.TrimPrefix(f[1], "0x"), 16, 64)
		flags, err3 := strconv.ParseUint(strings.TrimPrefix(f[2], "0x"), 16, 64)
		if err1 == nil && err2 == nil && err3 == nil && flags&memory != 0 && end > start && end-start < 1<<62 {
			largest = max(largest, end-start+1)
		}
	}
	return largest
}
