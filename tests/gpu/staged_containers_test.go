package gpu

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/staging"
)

// TestGPUStagedContainers: the second process is in separate IPC and PID namespaces, as in another container, with
// default settings. If UCX has no transport for GPUs then, frames are staged; over tcp:// they always are. The data is
// correct in all cases.
func TestGPUStagedContainers(t *testing.T) {
	requireGPU(t)
	unshare, err := exec.LookPath("unshare")
	must(t, err)
	for _, scheme := range []string{"", "tcp"} {
		t.Run(fmt.Sprintf("%q", scheme), func(t *testing.T) {
			ctx := testContext(t)
			h := openHelperBy(t, order{Do: "open-comm", Device: "device", Scheme: scheme}, unshare, "--ipc", "--pid",
				"--fork", "--kill-child", "--mount-proc")
			c := stagedDial(t, ctx, h, scheme, nil, comm.StagedConfig{})
			serve := h.start(order{Do: "echo-comm"})
			for _, n := range []int{1000, 8<<20 + 13, 64 << 20} {
				if err := echoArray(ctx, c, n, "device"); err != nil {
					t.Errorf("%d bytes: %v", n, err)
				}
			}
			ipc := false
			if c, ok := c.(interface{ Transports() []string }); ok {
				t.Logf("transports: %v", c.Transports())
				ipc = slices.Contains(c.Transports(), "cuda_ipc")
			}
			e, err := staging.ForDevice(device)
			must(t, err)
			if staged := e.PinnedBytes() > 0; staged == ipc {
				t.Errorf("staged: %v, cuda_ipc: %v", staged, ipc)
			}
			must(t, c.Close())
			serve.wait()
			if n := pinned(t); n != 0 {
				t.Errorf("%d bytes of pinned memory are left", n)
			}
		})
	}
}
