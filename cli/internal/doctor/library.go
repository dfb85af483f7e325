package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// libucp is the soname of the library that Millstream loads.
const libucp = "libucp.so.0"

// minUCX is the oldest supported release of UCX.
var minUCX = [2]int{1, 13}

var ucxPackages = packages{debian: "libucx0", enterprise: "ucx", suse: "libucp0"}

// checkLibrary checks for a usable libucp.
func checkLibrary(h *Host) []Finding {
	if h.NoCgo {
		return one(Fail, "this binary was built without cgo and cannot use UCX",
			"Only tcp, tls and inproc communication work.",
			"install gcc and rebuild with CGO_ENABLED=1")
	}
	if lib := h.UCX; lib != nil {
		title := fmt.Sprintf("UCX %s at %s", lib.Version, lib.Path)
		var major, minor int
		if _, err := fmt.Sscanf(lib.Version, "%d.%d", &major, &minor); err == nil && older(major, minor) {
			return one(Fail, title+" is too old",
				fmt.Sprintf("Millstream needs UCX %d.%d or newer.", minUCX[0], minUCX[1]), h.installUCX())
		}
		return one(OK, title, strings.Join(lib.PassedOver, "; "), "")
	}
	cause := ""
	if h.UCXError != nil {
		cause = h.UCXError.Error()
	}
	if path := h.env("MILLSTREAM_UCX_LIBRARY"); path != "" {
		if !h.exists(rel(path)) {
			return one(Fail, fmt.Sprintf("MILLSTREAM_UCX_LIBRARY is %s, which does not exist", path), cause,
				"set MILLSTREAM_UCX_LIBRARY to an existing libucp.so.0, or unset it to search for one")
		}
		return one(Fail, fmt.Sprintf("MILLSTREAM_UCX_LIBRARY is %s, which cannot be loaded", path), cause,
			"unset MILLSTREAM_UCX_LIBRARY to search for another one, or run `ldd "+path+
				"` and install the missing libraries")
	}
	if found := h.ucxLibraries(); len(found) > 0 {
		return one(Fail, "a UCX library exists but cannot be loaded: "+strings.Join(found, ", "), cause,
			"run `ldd "+found[0]+"` and install the missing libraries, or set MILLSTREAM_UCX_LIBRARY to another "+
				"libucp.so.0")
	}
	return one(Fail, "no UCX library found", cause, h.installUCX())
}

func older(major, minor int) bool {
	return major < minUCX[0] || major == minUCX[0] && minor < minUCX[1]
}

func (h *Host) installUCX() string {
	wheel := "libucx-cu12 (or libucx-cu13)"
	return fmt.Sprintf("%s (with RDMA, without CUDA); or pip install %s (with CUDA, without RDMA); or set "+
		"MILLSTREAM_UCX_LIBRARY=/path/to/%s",
		h.install(ucxPackages), wheel, libucp)
}

// ucxLibraries returns all libucp on the search path of this machine, each file once.
func (h *Host) ucxLibraries() []string {
	candidates := []string{}
	for _, dir := range h.libraryDirs() {
		candidates = append(candidates, dir+"/"+libucp)
	}
	for _, prefix := range []string{h.env("VIRTUAL_ENV"), h.env("CONDA_PREFIX"), h.env("HOME") + "/.local",
		"/usr/local", "/usr"} {
		if prefix == "" {
			continue
		}
		for _, packages := range []string{"site-packages", "dist-packages"} {
			candidates = append(candidates, h.glob(rel(prefix)+"/lib/python3*/"+packages+"/libucx/lib/"+libucp)...)
		}
	}
	var found []string
	var infos []fs.FileInfo
	for _, name := range candidates {
		name = h.mergedUsr(name)
		info, err := fs.Stat(h.FS, name)
		if err != nil || slices.Contains(found, "/"+name) ||
			slices.ContainsFunc(infos, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			continue
		}
		found = append(found, "/"+name)
		infos = append(infos, info)
	}
	return found
}

// mergedUsr follows /lib -> usr/lib and /lib64 -> usr/lib64.
func (h *Host) mergedUsr(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	if target := h.link(first); target != "" {
		return rel(target) + "/" + rest
	}
	return name
}

// checkDuplicates checks for several UCX libraries: in one process they patch the same memory functions and read the
// same settings.
func checkDuplicates(h *Host) []Finding {
	var loaded []string
	for line := range strings.Lines(h.read("proc/self/maps")) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		file := fields[5]
		if base := file[strings.LastIndex(file, "/")+1:]; strings.HasPrefix(base, "libucp") &&
			strings.Contains(base, ".so") && !slices.Contains(loaded, file) {
			loaded = append(loaded, file)
		}
	}
	if len(loaded) > 1 {
		return one(Warn, fmt.Sprintf("%d UCX libraries are loaded in one process", len(loaded)),
			strings.Join(loaded, ", ")+": all of them replace the memory functions of the process and read the same "+
				"UCX_* "+
				"settings, which causes crashes and wrong transports.",
			"set MILLSTREAM_UCX_LIBRARY="+loaded[0]+" so that all parts of the process use the same one")
	}
	found := h.ucxLibraries()
	if len(found) < 2 {
		return one(OK, "at most one UCX library on the search path", "", "")
	}
	chosen := found[0]
	if h.UCX != nil {
		chosen = h.UCX.Path
	}
	return one(Info, fmt.Sprintf("%d UCX libraries on the search path", len(found)),
		strings.Join(found, ", ")+". A Python process may use another library than "+chosen+
			"; different releases are compatible, but choose transports differently.",
		"export MILLSTREAM_UCX_LIBRARY="+chosen+" to fix the choice")
}

// checkEnvironment checks UCX_* variables: UCX silently ignores unknown ones, such as misspelled names; other values
// make it fail or lose a transport.
func checkEnvironment(h *Host) []Finding {
	set := 0
	for _, kv := range h.Env {
		if strings.HasPrefix(kv, "UCX_") {
			set++
		}
	}
	if h.LintEnv == nil {
		return one(Info, fmt.Sprintf("%d UCX_* variables are set and were not checked", set), "", "")
	}
	var findings []Finding
	for _, p := range h.LintEnv(h.Env) {
		fix := p.Fix
		if fix == "" {
			fix = "unset " + p.Name + ", or see `millstream info --config` for valid names"
		}
		findings = append(findings, Finding{Severity: p.Severity, Title: p.Name + ": " + p.Message, Fix: fix})
	}
	if findings == nil && set == 0 {
		return one(OK, "no UCX_* variable is set: UCX chooses the transports", "", "")
	}
	if findings == nil {
		return one(OK, fmt.Sprintf("%d UCX_* variables are set, all known", set), "", "")
	}
	return findings
}
