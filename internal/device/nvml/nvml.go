package nvml

import (
	"errors"
	"fmt"
)

// Variable is the environment variable with the path of the library. An explicit path is final.
const Variable = "MILLSTREAM_NVML_LIBRARY"

// ErrUnavailable is returned by Open if the process cannot use the library.
var ErrUnavailable = errors.New("nvml: NVIDIA management library not available")

// Return is a return code of the library.
type Return int

// Return codes that callers distinguish.
const (
	Success         Return = 0
	InvalidArgument Return = 2
	NotSupported    Return = 3
	NotFound        Return = 6
)

// Error describes a call of the library that failed.
type Error struct {
	Op   string
	Code Return
	Text string // of the library
}

// Error returns the call and the text of the library.
func (e *Error) Error() string { return fmt.Sprintf("nvml: %s: %s (%d)", e.Op, e.Text, e.Code) }

// GPU describes a GPU.
type GPU struct {
	// Address is that on the PCI bus, with a domain of eight digits.
	Address string
	// UUID and Name are those of nvidia-smi -L.
	UUID, Name string
	// Memory is the size of the memory in bytes, 0 if the GPU shares the memory of the host.
	Memory int64
	// NVLinks is the number of active NVLinks, -1 if unknown.
	NVLinks int
	// MIGEnabled reports whether the GPU is divided into MIG.
	MIGEnabled bool
	MIG        []MIG
}

// MIG describes an instance of a GPU.
type MIG struct {
	UUID string
	Name string
	// Index is the index among the instances of the GPU, which has gaps; the others are numbers of the driver.
	Index, GPUInstance, ComputeInstance int
	Memory                              int64
}

// Sample is the use of a GPU or MIG instance at one moment.
type Sample struct {
	// Utilization is the percentage of time in which a kernel ran, -1 if the device does not report it, as MIG
	// instances.
	Utilization int
	// Used and Total are bytes of memory by all processes; -1 if the device does not report them.
	Used, Total int64
}

// maxLinks bounds the NVLinks of a GPU.
const maxLinks = 36

// GPUs returns the GPUs that the driver shows to this process. Lost GPUs are left out; it is an error if all are lost.
func (l *Library) GPUs() ([]GPU, error) {
	n, err := l.count()
	if err != nil {
		return nil, err
	}
	var list []GPU
	var lost error
	for i := range n {
		d, err := l.ByIndex(i)
		if err == nil {
			var g GPU
			if g, err = d.gpu(); err == nil {
				list = append(list, g)
			}
		}
		if err != nil {
			lost = errors.Join(lost, fmt.Errorf("GPU %d: %w", i, err))
		}
	}
	if len(list) == 0 && lost != nil {
		return nil, lost
	}
	return list, nil
}

func (d Device) gpu() (g GPU, err error) {
	if g.Address, err = d.address(); err != nil {
		return g, err
	}
	if g.UUID, err = d.UUID(); err != nil {
		return g, err
	}
	g.Name, _ = d.Name() // the name is optional
	_, total, err := d.memory()
	if err == nil {
		g.Memory = total
	}
	g.NVLinks = d.links()
	if !d.migEnabled() { // old GPUs do not support it
		return g, nil
	}
	g.MIGEnabled = true
	n, err := d.instances()
	if err != nil {
		return g, err
	}
	for i := range n {
		part, err := d.instance(i)
		if hasCode(err, NotFound) || hasCode(err, InvalidArgument) {
			continue // indexes have gaps
		}
		if err != nil {
			return g, err
		}
		m, err := part.mig(i)
		if err != nil {
			return g, err
		}
		g.MIG = append(g.MIG, m)
	}
	return g, nil
}

func (d Device) mig(index int) (m MIG, err error) {
	m.Index = index
	if m.UUID, err = d.UUID(); err != nil {
		return m, err
	}
	m.Name, _ = d.Name()
	if _, total, err := d.memory(); err == nil {
		m.Memory = total
	}
	m.GPUInstance, m.ComputeInstance, err = d.instanceIDs()
	return m, err
}

// links returns the number of active NVLinks, -1 if the driver does not report it.
func (d Device) links() (up int) {
	for i := range maxLinks {
		active, err := d.link(i)
		switch {
		case err == nil:
			if active {
				up++
			}
		case hasCode(err, NotSupported), hasCode(err, InvalidArgument):
			return up // no NVLink, or the last one
		default:
			return -1
		}
	}
	return up
}

// Sample returns the current use of the device.
func (d Device) Sample() (Sample, error) {
	s := Sample{Utilization: -1, Used: -1, Total: -1}
	use, err := d.utilization()
	switch {
	case err == nil:
		s.Utilization = min(max(use, 0), 100)
	case !hasCode(err, NotSupported):
		return s, err
	}
	used, total, err := d.memory()
	switch {
	case err == nil:
		s.Used, s.Total = used, total
	case !hasCode(err, NotSupported):
		return s, err
	}
	return s, nil
}

func hasCode(err error, code Return) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// size converts a number of bytes of the library, which a broken driver may exaggerate.
func size(n uint64) int64 {
	if n > 1<<62 {
		return 0
	}
	return int64(n)
}
