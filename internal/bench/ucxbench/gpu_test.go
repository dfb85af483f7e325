package ucxbench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/cuda"
)

// Every case moves device memory between two processes, with a fresh pattern
// and guard bytes that are read back through the driver.
func TestGPUEveryCase(t *testing.T) {
	if n, err := cuda.DeviceCount(); err != nil || n == 0 {
		t.Skipf("no GPU: %d devices, %v", n, err)
	}
	for _, setting := range []string{"cuda_ipc", "auto"} {
		t.Run(setting, func(t *testing.T) {
			env, err := SettingEnv(setting, MemCUDA)
			if err != nil {
				t.Fatal(err)
			}
			p, err := StartPair(t.Context(), testStarter(), env, OpenArgs{Mode: "adaptive", Endpoint: EndpointLifeline,
				Device: 0})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			for _, c := range Cases() {
				for _, size := range []int64{8, 100_000, 8 << 20} {
					if skip(c, setting, MemCUDA, EndpointLifeline) || c.Kind == Rate && size > 8 || c.Kind == Mapping {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d", c.Name, size), func(t *testing.T) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						spec := Spec{Case: c.Name, Size: size, Mem: MemCUDA, Iterations: 20, Warmup: 2, Window: 4,
							Goroutines: 4, Seed: uint64(time.Now().UnixNano())}
						s, err := p.Run(ctx, spec)
						if err != nil {
							t.Fatal(err)
						}
						if _, err := value(Job{Case: c, Size: size}, s); err != nil {
							t.Error(err)
						}
					})
				}
			}
		})
	}
}
