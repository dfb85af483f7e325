package doctor

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// files describes a machine: path to content; a value "->x" is a link to x.
type files map[string]string

// machine is a healthy two-processor Debian host without GPU and RDMA, as
// changed by f.
func machine(f files, change ...func(*Host)) *Host {
	fsys := fstest.MapFS{
		"proc/self/ns/ipc": {Data: []byte(initialIPC), Mode: fs.ModeSymlink},
		"proc/self/ns/pid": {Data: []byte(initialPID), Mode: fs.ModeSymlink},
		"etc/os-release":   {Data: []byte("ID=debian\n")},
	}
	for name, text := range f {
		if target, ok := strings.CutPrefix(text, "->"); ok {
			fsys[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		} else {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	h := &Host{
		FS:   fsys,
		Arch: "x86_64-linux-gnu",
		CPUs: 2,
		Limit: func(resource int) (uint64, uint64, error) {
			if resource == unix.RLIMIT_NOFILE {
				return 1024, 1 << 20, nil
			}
			return Unlimited, Unlimited, nil
		},
		Space:       func(string) (uint64, uint64, error) { return 8 << 30, 8 << 30, nil },
		Connections: 256,
		UCX: &Library{Path: "/usr/lib/libucp.so.0", Version: "1.21.0",
			Transports: []string{"self", "tcp", "posix", "sysv", "cma"}},
		LintEnv: func([]string) []EnvProblem { return nil },
	}
	for _, c := range change {
		c(h)
	}
	return h
}

// want describes the finding a case expects; texts must appear in it.
type want struct {
	severity Severity
	texts    []string
}

func expect(t *testing.T, got []Finding, w want) {
	t.Helper()
	if len(got) == 0 {
		t.Fatal("no finding")
	}
	f := got[0]
	if f.Severity != w.severity {
		t.Errorf("severity %s, want %s: %+v", f.Severity, w.severity, f)
	}
	all := f.Title + "\n" + f.Detail + "\n" + f.Fix
	for _, text := range w.texts {
		if !strings.Contains(all, text) {
			t.Errorf("no %q in %q", text, all)
		}
	}
	if (f.Severity == Warn || f.Severity == Fail) && f.Fix == "" {
		t.Errorf("%s without a fix: %+v", f.Severity, f)
	}
}

type checkCase struct {
	name   string
	files  files
	change func(*Host)
	want   want
}

func runCases(t *testing.T, check func(*Host) []Finding, cases []checkCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var change []func(*Host)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			expect(t, check(machine(tc.files, change...)), tc.want)
		})
	}
}

func setenv(kv ...string) func(*Host) {
	return func(h *Host) { h.Env = append(h.Env, kv...) }
}

func noUCX(err error) func(*Host) {
	return func(h *Host) { h.UCX, h.UCXError = nil, err }
}

// A healthy machine has nothing to fix, and every check has a finding.
func TestExamineHealthy(t *testing.T) {
	r := Examine(machine(files{
		"usr/lib/x86_64-linux-gnu/libibverbs.so.1": "", "usr/lib/x86_64-linux-gnu/librdmacm.so.1": "",
		"usr/lib/x86_64-linux-gnu/libnuma.so.1": "",
	}))
	seen := map[string]bool{}
	for _, f := range r.Findings {
		seen[f.ID] = true
		if f.Severity.rank() > Info.rank() {
			t.Errorf("healthy machine: %+v", f)
		}
	}
	for _, c := range Checks() {
		if !seen[c.ID] {
			t.Errorf("check %s reported nothing", c.ID)
		}
	}
	if r.Worst() != Info {
		t.Errorf("worst = %s", r.Worst())
	}
}

// The checks must not fail on an empty file system or the real one.
func TestExamineExtremes(t *testing.T) {
	empty := machine(nil)
	empty.FS, empty.UCX, empty.LintEnv = fstest.MapFS{}, nil, nil
	empty.Limit = func(int) (uint64, uint64, error) { return 0, 0, errors.New("no limits here") }
	if r := Examine(empty); r.Worst() != Fail || r.Findings[0].ID != "ucx-library" {
		t.Errorf("empty machine: %+v", r.Findings)
	}
	real := ThisHost()
	real.Connections = 1
	if len(real.Env) != len(os.Environ()) || real.CPUs < 1 {
		t.Errorf("ThisHost = %+v", real)
	}
	r := Examine(real)
	if len(r.Findings) < len(Checks()) {
		t.Errorf("%d findings of %d checks", len(r.Findings), len(Checks()))
	}
	if real.link("proc/self/ns/ipc") == "" {
		t.Error("namespaces of the real host cannot be read")
	}
}

func TestHostHelpers(t *testing.T) {
	h := machine(files{"etc/x": " text \n"}, setenv("A=1", "A=2", "B="))
	if h.env("A") != "2" || h.env("B") != "" || h.env("C") != "" {
		t.Error("env")
	}
	if h.read("etc/x") != "text" || h.read("etc/none") != "" || !h.exists("etc/x") || h.exists("etc/none") {
		t.Error("read")
	}
	if rel("/a/../b/") != "b" || rel("/") != "" {
		t.Errorf("rel: %q", rel("/"))
	}
	for goarch, want := range map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu",
		"ppc64le": "powerpc64le-linux-gnu", "riscv64": "riscv64-linux-gnu", "s390x": "s390x-linux-gnu"} {
		if got := multiarch(goarch); got != want {
			t.Errorf("multiarch(%s) = %s", goarch, got)
		}
	}
}

func TestDistroAndInstall(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian":                              "sudo apt-get install libucx0",
		"ID=ubuntu\nID_LIKE=debian":              "sudo apt-get install libucx0",
		"ID=\"rocky\"\nID_LIKE=\"rhel centos\"":  "sudo dnf install ucx",
		"ID=fedora":                              "sudo dnf install ucx",
		"ID=\"opensuse-leap\"\nID_LIKE=\"suse\"": "sudo zypper install libucp0",
		"":                                       "sudo apt-get install libucx0",
		"NAME=x\nID=void":                        "sudo apt-get install libucx0",
	} {
		if got := machine(files{"etc/os-release": release}).install(ucxPackages); got != want {
			t.Errorf("%q: %q, want %q", release, got, want)
		}
	}
	root := machine(nil, func(h *Host) { h.Root = true })
	if got := root.install(ucxPackages); got != "apt-get install libucx0" {
		t.Errorf("as root: %q", got)
	}
}

func TestLibraryDirs(t *testing.T) {
	h := machine(files{
		"etc/ld.so.conf":             "include ld.so.conf.d/*.conf\n# comment\n/opt/own/lib\n",
		"etc/ld.so.conf.d/a.conf":    "/opt/a/lib # why\n",
		"etc/ld.so.conf.d/self.conf": "include /etc/ld.so.conf\n",
	}, setenv("LD_LIBRARY_PATH=/first::/second", "CONDA_PREFIX=/conda"))
	dirs := h.libraryDirs()
	for i, want := range []string{"first", "second", "conda/lib", "opt/a/lib", "opt/own/lib"} {
		if dirs[i] != want {
			t.Errorf("dirs[%d] = %q, want %q (%q)", i, dirs[i], want, dirs)
		}
	}
	if !slices.Contains(dirs, "usr/lib/x86_64-linux-gnu") {
		t.Errorf("no multiarch folder in %q", dirs)
	}
}
