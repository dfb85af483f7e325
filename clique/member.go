package clique

import (
	"cmp"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
)

// Member describes one rank of a clique.
type Member struct {
	// Rank is the number of the rank, 0 to Size-1.
	Rank int `json:"rank"`
	// Worker is the address of the worker, Name its name.
	Worker string `json:"worker"`
	Name   string `json:"name,omitempty"`
	// Host is the host of the worker's address, and HostName the name of its machine.
	Host     string `json:"host"`
	HostName string `json:"hostname,omitempty"`
	// GPU is the number of the worker's GPU (the first of its CUDA_VISIBLE_DEVICES), -1 if it has none.
	GPU int `json:"gpu"`
	// UUID is the UUID of the GPU, as nvidia-smi -L prints it.
	UUID string `json:"uuid,omitempty"`
	// PCI is the PCI address of the GPU, such as "0000:3b:00.0"; empty if the worker has no GPU.
	PCI string `json:"pci,omitempty"`
}

// order sorts members by host, then GPU, then address, and numbers them. As in RAFT, neighbors are close to each other.
func order(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PCI, b.PCI), cmp.Compare(a.GPU, b.GPU),
			cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Worker, b.Worker))
	})
	for i := range members {
		members[i].Rank = i
	}
}

// describe returns the member for the worker of this process.
func describe(worker, name string) Member {
	m := Member{Worker: worker, Name: name, GPU: -1}
	scheme, _ := commaddr.Parse(worker)
	host, err := comm.AddressHost(worker)
	if err != nil {
		host = worker
	}
	m.Host = scheme + "://" + host
	m.HostName, _ = os.Hostname()
	first, _, _ := strings.Cut(os.Getenv("CUDA_VISIBLE_DEVICES"), ",")
	if first = strings.TrimSpace(first); first != "" {
		if n, err := strconv.Atoi(first); err == nil {
			m.GPU = n // CUDA uses negative numbers for none
		} else {
			m.UUID = first
		}
	}
	return m
}

// sorted iterates over the keys of a map in order.
func sorted[K cmp.Ordered, V any](m map[K]V) iter.Seq[K] {
	return slices.Values(slices.Sorted(maps.Keys(m)))
}
