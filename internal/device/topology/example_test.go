package topology_test

import (
	"fmt"

	"go.millstream.dev/internal/device/topology"
)

// What each of three workers on one machine sees: its own GPU is always device 0.
func ExampleRotate() {
	devices, _ := topology.ParseVisible("0,1,2")
	for i := range devices {
		fmt.Println(topology.Rotate(devices, i))
	}
	// Output:
	// 0,1,2 <nil>
	// 1,2,0 <nil>
	// 2,0,1 <nil>
}

func ExampleCPUSet() {
	near, _ := topology.ParseCPUList("0-7")
	mine := topology.CPUs(6, 7, 8)
	fmt.Println(near.And(mine))
	// Output: 6-7
}
