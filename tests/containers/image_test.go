//go:build containers

package containers

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestImage builds the image on the base of scripts/setup containers and checks what it declares and contains.
func TestImage(t *testing.T) {
	build(t)
	var inspected []struct {
		Size   int64
		Config struct {
			User            string
			Entrypoint, Cmd []string
		}
	}
	if err := json.Unmarshal([]byte(podman(t, "image", "inspect", image)), &inspected); err != nil {
		t.Fatal(err)
	}
	got := inspected[0]
	t.Logf("image of %.0f MB, with the base", float64(got.Size)/1e6)
	if got.Config.User != "millstream" || !slices.Equal(got.Config.Entrypoint, []string{"millstream"}) ||
		!slices.Equal(got.Config.Cmd, []string{"doctor"}) {
		t.Errorf("got %+v, want user and entry point millstream, command doctor", got.Config)
	}
	if got := once(t, []string{"--entrypoint", "id"}, []string{"-u"}); got != uid {
		t.Errorf("got user %s, want %s", got, uid)
	}
	_, all, err := try(t, "run", "--rm", "--network", "none", "--entrypoint", "touch", image, "/usr/bin/x")
	if err == nil || !strings.Contains(all, "Permission denied") {
		t.Errorf("the user of the image can write to /usr/bin: %v: %s", err, all)
	}
	if got := once(t, nil, []string{"version"}); !strings.HasPrefix(got, "millstream ") {
		t.Errorf("millstream version: got %s", got)
	}
	// doctor exits with 1 for a failure, which this image must not have.
	report := once(t, nil, nil)
	for _, want := range []string{"✓ UCX 1.", "✓ libibverbs, librdmacm and libnuma are installed", "0 failures"} {
		if !strings.Contains(report, want) {
			t.Errorf("doctor: got no %q in\n%s", want, report)
		}
	}
	// demo moves data over every transport of UCX that one container has.
	if out := once(t, []string{"--shm-size", "1g"}, []string{"demo"}); !strings.Contains(out, "ucx") {
		t.Errorf("demo: got\n%s", out)
	}
}

var built sync.Once

// build builds the image from the unchanged Containerfile, once. Its base has the name of the public image.
func build(t *testing.T) {
	t.Helper()
	built.Do(func() { buildImage(t) })
}

func buildImage(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(repository, "bin/millstream")); err != nil {
		t.Fatalf("%v; run make build", err)
	}
	importBase(t)
	podman(t, "build", "--pull=never", "--network", "host", "--file", filepath.Join(repository, "deploy/Containerfile"),
		"--tag", image, repository)
}

// TestReadOnly runs the program with a read-only root and without capabilities, as clusters with strict policies do.
func TestReadOnly(t *testing.T) {
	build(t)
	flags := []string{"--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp"}
	if out := once(t, flags, []string{"demo"}); !strings.Contains(out, "ucx") {
		t.Errorf("demo: got\n%s", out)
	}
}

// TestBinaries runs tests of packages in the image, as its user and with its UCX.
func TestBinaries(t *testing.T) {
	build(t)
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"mem", "internal/comm/tcp", "ucx"} {
		name := strings.ReplaceAll(pkg, "/", "-") + ".test"
		cmd := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, name), "./"+pkg)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", pkg, err, out)
		}
		flags := []string{"--shm-size", "1g", "--volume", dir + ":/tests:ro",
			"--volume", root + "/" + pkg + ":/source:ro", "--workdir", "/source", "--entrypoint", "/tests/" + name}
		// The image has no go command, which TestWithoutCgo calls.
		out := once(t, flags, []string{"-test.skip", "^TestWithoutCgo$"})
		if !strings.HasSuffix(out, "PASS") {
			t.Errorf("%s: got %s", pkg, out)
		}
	}
}
