package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"go.millstream.dev/internal/tools/gpurecord"
)

var (
	cudaVersion = regexp.MustCompile(`CUDA (?:UMD |Driver )?Version\s*: *([0-9.]+)`)
	ucxVersion  = regexp.MustCompile(`(?m)^# Library version: (\S+)`)
)

// describe adds the description of the machine to the record.
func describe(ctx context.Context, r *gpurecord.Record) error {
	out, err := command(ctx, nil, "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
	if err != nil {
		return fmt.Errorf("%w; run the GPU tests on a machine with an NVIDIA driver", err)
	}
	if r.Device, r.Driver, err = parseSMI(out); err != nil {
		return err
	}
	if out, err = command(ctx, nil, "nvidia-smi"); err != nil {
		return err
	}
	m := cudaVersion.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("no CUDA version in the output of nvidia-smi:\n%s", out)
	}
	r.CUDA = m[1]
	r.UCX, err = ucx(ctx)
	return err
}

// parseSMI parses lines "name, driver", one per device.
func parseSMI(out string) (device, driver string, err error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	name, driver, ok := strings.Cut(lines[0], ", ")
	if !ok {
		return "", "", fmt.Errorf("invalid output of nvidia-smi %q: want device and driver", lines[0])
	}
	if len(lines) > 1 {
		name = fmt.Sprintf("%d × %s", len(lines), name)
	}
	return name, strings.TrimSpace(driver), nil
}

// ucx returns the release of the UCX library that the tests use.
func ucx(ctx context.Context) (string, error) {
	lib := os.Getenv("MILLSTREAM_UCX_LIBRARY")
	if lib == "" {
		return "", fmt.Errorf("MILLSTREAM_UCX_LIBRARY is not set; use run.sh of the bundle")
	}
	env := append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(lib))
	info := filepath.Join(filepath.Dir(lib), "..", "bin", "ucx_info")
	out, err := command(ctx, env, info, "-v")
	if err != nil {
		return "", err
	}
	m := ucxVersion.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("no version in the output of %s -v:\n%s", info, out)
	}
	return m[1], nil
}

func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}
