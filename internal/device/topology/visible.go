package topology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseVisible splits a value of CUDA_VISIBLE_DEVICES into its entries: indices, "GPU-…" or "MIG-…" names. In CUDA an
// invalid entry (such as -1) ends the list; here it is an error, since a list that is silently truncated makes workers
// disappear. An entry may occur twice: two workers then share a GPU.
func ParseVisible(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list []string
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		n, err := strconv.Atoi(entry)
		named := strings.HasPrefix(entry, "GPU-") || strings.HasPrefix(entry, "MIG-")
		if !named && (err != nil || n < 0) {
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %q is neither the number of a GPU nor a name that "+
				"begins with GPU- or MIG-", text, entry)
		}
		list = append(list, entry)
	}
	return list, nil
}

// Rotate returns the CUDA_VISIBLE_DEVICES of worker i of a machine: the same devices with the worker's own first, as in
// Dask-CUDA, so that device 0 of each process is its own GPU. A device that is listed twice is assigned once to each.
func Rotate(devices []string, i int) (string, error) {
	if len(devices) == 0 {
		return "", errors.New("no GPU is visible")
	}
	if i < 0 || i >= len(devices) {
		return "", fmt.Errorf("worker %d has no GPU: %d are visible; list one twice to share it", i, len(devices))
	}
	seen := map[string]bool{}
	var list []string
	for j := range devices {
		if d := devices[(i+j)%len(devices)]; !seen[d] {
			seen[d] = true
			list = append(list, d)
		}
	}
	return strings.Join(list, ","), nil
}
