package cluster

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"go.millstream.dev/cli"
	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
)

// TestGPUDoctor: doctor has workers with GPUs move device memory, names the transports between them, and warns where
// cuda_ipc is kept out.
func TestGPUDoctor(t *testing.T) {
	requireGPU(t)
	t.Setenv("NO_COLOR", "1")
	for _, c := range []struct {
		name   string
		nvlink config.Switch
		want   string // of both directions
		never  string
	}{
		{"as UCX chooses", config.Unset,
			`(?m)^✓ \S+ → \S+: device memory, ucxx \([a-z_, ]*cuda_ipc[a-z_, ]*\), [0-9.]+ GB/s$`, "no cuda_ipc"},
		{"without cuda_ipc", config.Off,
			`(?m)^! \S+ → \S+: device memory, ucxx \([a-z_, ]+\), [0-9.]+ GB/s\n    Device memory is staged through host memory: UCX has no cuda_ipc`, `\([^)]*cuda_ipc`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			cl, err := cluster.LocalCUDA(ctx, cluster.CUDAConfig{Devices: []string{"0", "0"},
				RMM: cluster.RMMConfig{PoolSize: "1GiB"}, UCX: config.UCX{NVLink: c.nvlink}},
				cluster.Config{Protocol: "tcp"})
			must(t, err)
			defer cl.Close()
			var out, problems bytes.Buffer
			code := cli.Run(ctx, []string{"doctor", cl.Address(), "--size", "16MiB"}, strings.NewReader(""), &out,
				&problems)
			t.Logf("%s%s", &out, &problems)
			if got := regexp.MustCompile(c.want).FindAllString(out.String(), -1); code != 0 || len(got) != 2 ||
				regexp.MustCompile(c.never).MatchString(out.String()) {
				t.Errorf("code %d, %d directions as expected", code, len(got))
			}
		})
	}
}
