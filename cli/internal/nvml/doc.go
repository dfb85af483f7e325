// Package nvml reads GPUs from the NVIDIA management library (libnvidia-ml): their UUIDs, memory and MIG instances. It
// implements topology.Driver:
//
//	driver, err := nvml.Open()
//	if err == nil {
//		defer driver.Close()
//		m, err = topology.Read(topology.Config{Driver: driver})
//	}
//
// It is built with -tags nvml, cgo and the linker flag -extldflags=-Wl,-z,lazy: the bindings
// (github.com/NVIDIA/go-nvml) resolve the functions of the library when they are called, and linkers that resolve them
// at start would produce programs that need the driver. Without the tag Open returns an error, and package topology
// uses the information of the kernel: addresses, UUIDs and models.
package nvml
