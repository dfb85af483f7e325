//go:build containers

package containers

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// base is the name of the public image that the Containerfiles begin with. Here it is a manifest list of the images
// that scripts/setup images makes of Debian's packages.
const base = "docker.io/library/debian:bookworm-slim"

// bases returns the file with the base of each architecture. An amd64 machine also has that of arm64.
func bases() map[string]string {
	files := map[string]string{runtime.GOARCH: "base.tar"}
	if runtime.GOARCH == "amd64" {
		files["arm64"] = "base-arm64.tar"
	}
	return files
}

// importBase imports the base for all architectures, once.
func importBase(t *testing.T) {
	t.Helper()
	if _, _, err := try(t, "manifest", "exists", base); err == nil {
		return
	}
	_, _, _ = try(t, "rmi", "--force", base)
	podman(t, "manifest", "create", base)
	for arch, file := range bases() {
		name := "localhost/millstream-base-" + arch
		podman(t, "import", "--arch", arch, filepath.Join(folder(t), file), name)
		podman(t, "manifest", "add", "--arch", arch, base, "containers-storage:"+name)
	}
}

// certificates returns flags of podman build that make pip trust the authorities of this machine, which has another set
// than the image where a proxy encrypts again.
func certificates(t *testing.T) string {
	t.Helper()
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	if _, err := os.Stat(bundle); err != nil {
		return ""
	}
	settings := filepath.Join(t.TempDir(), "pip.conf")
	if err := os.WriteFile(settings, []byte("[global]\ncert = /host.crt\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return " --volume=" + bundle + ":/host.crt:ro --volume=" + settings + ":/etc/pip.conf:ro"
}

// TestArchitectures builds both images for amd64 and arm64 with scripts/images and runs each, by an emulator on
// another machine.
func TestArchitectures(t *testing.T) {
	build(t) // its base
	at := folder(t)
	cmd := exec.Command("scripts/images")
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(at, "containers.conf"),
		"PODMAN=podman --root "+filepath.Join(at, "storage")+" --runroot "+filepath.Join(at, "run"),
		"IMAGE_FLAGS=--pull=never --network=host"+certificates(t),
		"REGISTRY=localhost/all", "ARCHITECTURES="+strings.Join(slices.Sorted(maps.Keys(bases())), " "))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("scripts/images: %v: %s", err, out)
	}
	for _, name := range []string{"localhost/all/millstream", "localhost/all/millstream-cuda"} {
		for arch := range bases() {
			machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
			t.Run(filepath.Base(name)+"-"+arch, func(t *testing.T) {
				run := func(flags []string, command ...string) string {
					t.Helper()
					args := append([]string{"run", "--rm", "--pull=never", "--network", "none", "--platform",
						"linux/" + arch}, flags...)
					return podman(t, append(append(args, name), command...)...)
				}
				if got := run([]string{"--entrypoint", "uname"}, "-m"); got != machine {
					t.Errorf("got machine %s, want %s", got, machine)
				}
				if got := run([]string{"--entrypoint", "id"}, "-u"); got != uid {
					t.Errorf("got user %s, want %s", got, uid)
				}
				if got := run(nil, "version"); !strings.Contains(got, "linux/"+arch) {
					t.Errorf("got version %s, want linux/%s in it", got, arch)
				}
				info := run(nil, "info")
				t.Log(info)
				if !strings.Contains(info, "\nucx         1.") {
					t.Errorf("UCX is not loaded:\n%s", info)
				}
				cuda := slices.ContainsFunc(strings.Split(info, "\n"), func(line string) bool {
					return strings.HasPrefix(line, "built with  CUDA")
				})
				if want := strings.HasSuffix(name, "-cuda"); cuda != want {
					t.Errorf("UCX with CUDA: got %v, want %v:\n%s", cuda, want, info)
				}
			})
		}
	}
}
