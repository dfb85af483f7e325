package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// checkBAR1: a network card, or another GPU over PCI, reaches a GPU's memory through the window
// that BAR1 opens. Boards without large windows open 256 MiB.
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
			"GPUDirect RDMA and copies between GPUs over PCI can have no more of a GPU's memory mapped at a time; a "+
				"larger pool cannot be registered.",
			"turn on \"Above 4G decoding\" and \"Resizable BAR\" in the firmware; in a virtual machine, give it a "+
				"large PCI window")
	case len(large) > 0:
		return one(OK, "windows into GPU memory (BAR1): "+strings.Join(large, ", "), "", "")
	}
	return one(NA, "no GPU on the bus whose window (BAR1) could be too small", "", "")
}

func mib(n uint64) string {
	if n >= 1<<30 && n%(1<<30) == 0 {
		return strconv.FormatUint(n>>30, 10) + " GiB"
	}
	return strconv.FormatUint(n>>20, 10) + " MiB"
}

// largestBAR is the size of the largest memory window in the text of a PCI device's "resource":
// lines of start, end and flags in hexadecimal.
func largestBAR(text string) uint64 {
	const memory = 0x200
	var largest uint64
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > 6 {
			break // what follows is the ROM and the windows of bridges
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
