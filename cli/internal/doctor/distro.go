package doctor

import (
	"slices"
	"strings"
)

// family is a family of Linux distributions with the same package manager.
type family int

const (
	debian family = iota // Debian, Ubuntu; the default for unknown distributions
	enterprise
	suse
)

// distro returns the family according to /etc/os-release.
func (h *Host) distro() family {
	text := h.read("etc/os-release")
	if text == "" {
		text = h.read("usr/lib/os-release")
	}
	var ids []string
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		if k == "ID" || k == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(v, `"'`))...)
		}
	}
	switch {
	case slices.ContainsFunc(ids, func(id string) bool {
		return slices.Contains([]string{"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"}, id)
	}):
		return enterprise
	case slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(id, "suse") || id == "sles" }):
		return suse
	default:
		return debian
	}
}

// packages has the package names of a library in each family.
type packages struct{ debian, enterprise, suse string }

// install returns the command that installs packages on this machine.
func (h *Host) install(wanted ...packages) string {
	var names []string
	d := h.distro()
	for _, p := range wanted {
		switch d {
		case enterprise:
			names = append(names, p.enterprise)
		case suse:
			names = append(names, p.suse)
		default:
			names = append(names, p.debian)
		}
	}
	tool := map[family]string{debian: "apt-get install", enterprise: "dnf install", suse: "zypper install"}[d]
	if !h.Root {
		tool = "sudo " + tool
	}
	return tool + " " + strings.Join(names, " ")
}

// libraryDirs returns the folders that the dynamic linker, and the search for libucp, use: LD_LIBRARY_PATH, ld.so.conf,
// those of the system, and those of HPC-X, MLNX_OFED and conda. Names are relative to FS.
func (h *Host) libraryDirs() []string {
	var dirs []string
	add := func(dir string) {
		if dir = rel(dir); dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range strings.Split(h.env("LD_LIBRARY_PATH"), ":") {
		if dir != "" {
			add(dir)
		}
	}
	if prefix := h.env("CONDA_PREFIX"); prefix != "" {
		add(prefix + "/lib")
	}
	for _, dir := range h.ldConf("etc/ld.so.conf", 0) {
		add(dir)
	}
	for _, dir := range []string{
		"lib/" + h.Arch, "usr/lib/" + h.Arch, "lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib",
		"usr/local/lib64",
		"opt/ucx/lib", "opt/mellanox/ucx/lib", "opt/hpcx/ucx/lib",
	} {
		add(dir)
	}
	return dirs
}

// ldConf reads the folders in a configuration file of the linker, with its include lines. depth stops recursive
// includes.
func (h *Host) ldConf(name string, depth int) []string {
	if depth > 4 {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(h.read(name)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if pattern, ok := strings.CutPrefix(line, "include "); ok {
			pattern = strings.TrimSpace(pattern)
			if !strings.HasPrefix(pattern, "/") {
				pattern = "/etc/" + pattern
			}
			for _, file := range h.glob(rel(pattern)) {
				dirs = append(dirs, h.ldConf(file, depth+1)...)
			}
		} else if strings.HasPrefix(line, "/") {
			dirs = append(dirs, line)
		}
	}
	return dirs
}

// findLibrary returns the path of a shared library in the first folder that has it.
func (h *Host) findLibrary(soname string) (string, bool) {
	for _, dir := range h.libraryDirs() {
		if h.exists(dir + "/" + soname) {
			return "/" + dir + "/" + soname, true
		}
	}
	return "", false
}
