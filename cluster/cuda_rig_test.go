package cluster

import (
	"fmt"
	"testing"

	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/topology"
)

const gpuMemory = 40 << 30

// fourGPUs returns a fixed machine: two sockets with 16 processors each, two GPUs and two InfiniBand cards below each,
// a third card whose port is down, and eth0.
func fourGPUs(t *testing.T, env ...string) CUDAMachine {
	t.Helper()
	cpus := func(list string) topology.CPUSet {
		s, err := topology.ParseCPUList(list)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sockets := []string{"0-15", "16-31"}
	m := CUDAMachine{Topology: &topology.Machine{Online: cpus("0-31"), Allowed: cpus("0-31")}, Memory: 400 << 30,
		Env: env}
	for i := range 4 {
		socket := i / 2
		bridge := fmt.Sprintf("0000:%d%d:00.0", i, 1)
		root := fmt.Sprintf("pci0000:%d0", socket)
		gpu := &topology.Device{Address: fmt.Sprintf("0000:%d7:00.0", i), Node: socket, CPUs: cpus(sockets[socket]),
			Path: []string{root, bridge, fmt.Sprintf("0000:%d7:00.0", i)}}
		nic := &topology.Device{Address: fmt.Sprintf("0000:%dc:00.0", i), Node: socket, CPUs: cpus(sockets[socket]),
			Path: []string{root, bridge, fmt.Sprintf("0000:%dc:00.0", i)}}
		uuid := fmt.Sprintf("GPU-%08d-aaaa", i)
		m.Topology.GPUs = append(m.Topology.GPUs, &topology.GPU{Device: gpu, Index: i, UUID: uuid,
			Model: "NVIDIA A100"})
		m.Topology.NICs = append(m.Topology.NICs, &topology.NIC{
			Name: fmt.Sprintf("mlx5_%d", i), Device: nic, InfiniBand: true, Up: true,
			Ports: []topology.Port{{Number: 1, State: "ACTIVE"}}, Interfaces: []string{fmt.Sprintf("ib%d", i)},
		}, &topology.NIC{Name: fmt.Sprintf("ib%d", i), Device: nic, Up: true})
		m.Devices = append(m.Devices, cuda.Device{Ordinal: i, Name: "NVIDIA A100", UUID: uuid, GPUUUID: uuid,
			PCIBusID: gpu.Address, TotalMemory: gpuMemory})
	}
	down := &topology.Device{Address: "0000:61:00.0", Path: []string{"pci0000:60", "0000:61:00.0"}}
	m.Topology.NICs = append(m.Topology.NICs,
		&topology.NIC{Name: "mlx5_9", Device: down, InfiniBand: true,
			Ports: []topology.Port{{Number: 1, State: "DOWN"}}},
		&topology.NIC{Name: "eth0", Up: true}, &topology.NIC{Name: "eth1"})
	return m
}

// configured returns a configuration with an environment only.
func configured(t *testing.T, env ...string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{Paths: []string{}, Env: env, Warn: func(config.Warning) {}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
