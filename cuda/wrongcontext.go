package cuda

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// WrongContext describes a primary context of this process on a device that it should not use.
type WrongContext struct {
	Device Device
	// Libraries are the files in the process that use CUDA themselves. One of them has created the context unless the
	// program used that device with this package.
	Libraries []string
}

// String describes the problem, its possible causes and the fix.
func (w WrongContext) String() string {
	who := "created by code that calls the driver directly: no library in the process is linked with CUDA"
	switch len(w.Libraries) {
	case 0:
	case 1:
		who = "created by " + w.Libraries[0]
	default:
		who = "created by one of " + strings.Join(w.Libraries, ", ")
	}
	return fmt.Sprintf("this process has a CUDA context on %s, which is not its GPU, and uses memory there; %s; "+
		"make that code use device 0, or hide other GPUs from the process with CUDA_VISIBLE_DEVICES", w.Device, who)
}

// WrongContexts returns the primary contexts of this process on devices other than the given one, as created by
// libraries that choose a device themselves. It creates none. Contexts that are not the primary one of a device cannot
// be detected. With -1 every context is returned.
func WrongContexts(device int) ([]WrongContext, error) {
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	return wrongContexts(device, devices, HasContext, cudaUsers)
}

func wrongContexts(device int, devices []Device, has func(int) (bool, error),
	libraries func() []string) (wrong []WrongContext, err error) {
	for _, d := range devices {
		if d.Ordinal == device {
			continue
		}
		there, err := has(d.Ordinal)
		if err != nil {
			return wrong, err
		}
		if there {
			wrong = append(wrong, WrongContext{Device: d})
		}
	}
	if len(wrong) > 0 {
		found := libraries()
		for i := range wrong {
			wrong[i].Libraries = found
		}
	}
	return wrong, nil
}

// cudaUsers returns the files loaded into this process that use CUDA: those linked with the driver or the runtime, and
// those known to open it. Parts of the driver, and this program, are left out.
func cudaUsers() []string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	self, _ := os.Executable()
	return users(string(maps), self, os.DirFS("/"))
}

// opens are name prefixes of libraries that open the driver without being linked with it.
var opens = []string{"libcudart.", "libcublas.", "libcudnn", "libtorch_cuda.", "libnccl.", "librmm.", "libcudf.",
	"libtensorflow", "libonnxruntime_providers_cuda", "libnvshmem"}

// users parses the text of /proc/PID/maps.
func users(maps, self string, root fs.FS) []string {
	seen := map[string]bool{}
	var found []string
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		// Code only: address, permissions, offset, device, inode, path.
		if len(f) < 6 || !strings.Contains(f[1], "x") || !strings.HasPrefix(f[5], "/") {
			continue
		}
		file := strings.TrimSpace(line[strings.Index(line, f[5]):]) // a path may have blanks
		if seen[file] || file == self {
			continue
		}
		seen[file] = true
		name := path.Base(file)
		if strings.HasPrefix(name, "libcuda.so") || strings.HasPrefix(name, "libnvidia-") {
			continue
		}
		if opensCUDA(name) || linkedWithCUDA(root, file) {
			found = append(found, file)
		}
	}
	slices.Sort(found)
	return found
}

func opensCUDA(name string) bool {
	return slices.ContainsFunc(opens, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// linkedWithCUDA reports whether a file depends on libcuda or libcudart. It is false for files that cannot be read or
// are not ELF files.
func linkedWithCUDA(root fs.FS, file string) bool {
	f, err := root.Open(strings.TrimPrefix(file, "/"))
	if err != nil {
		return false
	}
	defer f.Close()
	r, ok := f.(interface {
		ReadAt(p []byte, off int64) (int, error)
	})
	if !ok {
		return false
	}
	e, err := elf.NewFile(r)
	if err != nil {
		return false
	}
	libraries, err := e.ImportedLibraries()
	return err == nil && slices.ContainsFunc(libraries, func(name string) bool {
		return strings.HasPrefix(name, "libcuda.so") || strings.HasPrefix(name, "libcudart.")
	})
}
