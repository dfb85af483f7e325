// Package nvml asks NVIDIA's management library (libnvidia-ml) for GPUs: their UUIDs and
// memory, and the parts (MIG) that they are cut into. It is a topology.Driver:
//
//	driver, err := nvml.Open()
//	if err == nil {
//		defer driver.Close()
//		m, err = topology.Read(topology.Config{Driver: driver})
//	}
//
// It is built with -tags nvml, cgo and the linker flag -extldflags=-Wl,-z,lazy: the bindings
// (github.com/NVIDIA/go-nvml) leave the library's functions open until they are called, and
// distributions whose linker closes them at once would make programs that do not start without
// the driver. Without the tag Open says so, and package topology serves with what the
// kernel knows: addresses, UUIDs and models.
package nvml
