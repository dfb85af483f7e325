package nvml_test

import (
	"fmt"

	"go.millstream.dev/cli/internal/nvml"
	"go.millstream.dev/internal/device/topology"
)

// A machine is read with the driver's help where there is one.
func Example() {
	var cfg topology.Config
	if driver, err := nvml.Open(); err == nil {
		defer driver.Close()
		cfg.Driver = driver
	}
	m, err := topology.Read(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Allowed.Len() > 0)
	// Output: true
}
