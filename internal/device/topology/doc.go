// Package topology describes how a machine's GPUs, network devices and processors are connected: which network device
// is closest to a GPU, and which processors should serve it. It reads Linux's sysfs and needs neither a driver library
// nor hwloc.
//
//	m, err := topology.Read(topology.Config{})
//	if err != nil {
//		return err
//	}
//	for _, gpu := range m.GPUs {
//		nic, netDevice, err := m.ClosestInfiniBand(gpu)
//		…
//		fmt.Println(gpu, nic.Name, netDevice, m.Affinity(gpu))
//	}
//	fmt.Print(m.Tree())
//
// # Distance
//
// The distance of two devices is the lowest part of the PCI tree that they share: [SamePort] for functions of one
// device, [SameSwitch], [ManySwitches] below one host bridge port, [SameBridge], [SameNode] of memory, [System] across
// nodes. These are the classes that `nvidia-smi topo -m` prints as PIX, PXB, PHB, NODE and SYS.
//
// # Processors
//
// [Machine.Affinity] is the set of processors next to a GPU, restricted to those that this process may use: the choice
// of a container or a batch system is narrowed, never overridden.
package topology
