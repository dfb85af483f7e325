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

// Member is one rank of a clique, as those who form it see it.
type Member struct {
	// Rank is its number, 0 … Size-1.
	Rank int `json:"rank"`
	// Worker is the address of its worker, Name the worker's name.
	Worker string `json:"worker"`
	Name   string `json:"name,omitempty"`
	// Host is where the worker's address is, and HostName how its machine calls itself.
	Host     string `json:"host"`
	HostName string `json:"hostname,omitempty"`
	// GPU is the number of the GPU that the worker has for itself (the first of its
	// CUDA_VISIBLE_DEVICES), -1 if it has none.
	GPU int `json:"gpu"`
	// UUID is that GPU's, as nvidia-smi -L prints it.
	UUID string `json:"uuid,omitempty"`
	// PCI is where it sits, such as "0000:3b:00.0"; empty if the worker has none of its own.
	PCI string `json:"pci,omitempty"`
}

// order sorts members by host, then GPU, then address, and numbers them: RAFT's order, so that
// neighbours are near each other.
func order(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PCI, b.PCI), cmp.Compare(a.GPU, b.GPU),
			cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Worker, b.Worker))
	})
	for i := range members {
		members[i].Rank = i
	}
}

// describe is the member that this process's worker would be.
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
			m.GPU = n // a negative one is CUDA's word for none
		} else {
			m.UUID = first
		}
	}
	return m
}

// sorted goes over the keys of a map in their order.
func sorted[K cmp.Ordered, V any](m map[K]V) iter.Seq[K] {
	return slices.Values(slices.Sorted(maps.Keys(m)))
}
