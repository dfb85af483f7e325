package pyproc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/wire/msgpack"
)

// allowedEnv are the names in the environment of an isolated child.
const allowedEnv = `PATH HOME TMPDIR USER LOGNAME LANG TZ LC_CTYPE XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
	XDG_RUNTIME_DIR MPLCONFIGDIR NUMBA_CACHE_DIR CUPY_CACHE_DIR CUDA_CACHE_PATH PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS
	OPENBLAS_NUM_THREADS PYTHONPATH PYTHONHOME PYTHONUSERBASE VIRTUAL_ENV LD_LIBRARY_PATH`

// childState returns the parts of the system that a child can see.
func childState(t *testing.T, p *Process) msgpack.Map {
	t.Helper()
	m, err := p.Call(testContext(t), "state", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	return v.(msgpack.Map)
}

// An isolated child inherits nothing: no environment, no descriptors, no network, and if the system allows it, it sees
// no other processes.
func TestIsolation(t *testing.T) {
	t.Setenv("MILLSTREAM_TEST_SECRET", "xyzzy")
	leaky, err := unix.Open("/dev/zero", unix.O_RDONLY, 0) // without CLOEXEC, as native libraries do
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaky)
	p := echo(t, func(c *Config) { c.Isolate = true })
	s := childState(t, p)
	env, _ := s.Get("environ")
	for k := range env.(msgpack.Map).All() {
		if !slices.Contains(strings.Fields(allowedEnv), k.(string)) {
			t.Errorf("the environment has %v", k)
		}
	}
	if s.GetString("cwd") != "/" {
		t.Errorf("it is in %s", s.GetString("cwd"))
	}
	fds, _ := s.Get("fds")
	if n := len(fds.([]any)); n > 5 { // 0 to 3, and the one that lists
		t.Errorf("descriptors: got %v, want at most 5", fds)
	}
	in := p.Isolation()
	if !in.NoNewPrivs {
		t.Error("the child can gain privileges")
	}
	network, _ := s.Get("network")
	if slices.Contains(in.Namespaces, "net") == (network == true) {
		t.Errorf("namespaces %v, but network: %v", in.Namespaces, network)
	}
	pid, _ := s.Get("pid")
	if slices.Contains(in.Namespaces, "pid") && pid != int64(1) {
		t.Errorf("it is number %v in its own namespace", pid)
	}
	uid, _ := s.Get("uid")
	if uid != int64(in.UID) || in.OtherUser != (in.UID != os.Getuid()) {
		t.Errorf("uid %v, reported %+v", uid, in)
	}
	if len(in.Namespaces) == 0 && len(in.Missing) == 0 || os.Getuid() == 0 && !in.OtherUser && len(in.Missing) == 0 {
		t.Errorf("a missing measure is not reported: %+v", in)
	}
	t.Logf("in force: %+v", in)
}

// As root, a child whose interpreter is readable by others runs as another user.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not root: the user cannot be changed")
		return
	}
	path := readablePython(t)
	if path == "" {
		t.Log("no interpreter that other users can read")
		return
	}
	cfg := echoConfig(t)
	cfg.Python, cfg.Isolate = path, true
	cfg.Env = []string{"PYTHONPATH=" + msgpackFor(t)}
	p, err := Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if in := p.Isolation(); !in.OtherUser || len(in.Missing) > 0 || len(in.Namespaces) < 3 {
		t.Errorf("isolation: got %+v, want another user and namespaces", in)
	}
	if s := childState(t, p); s.GetString("cwd") != "/" {
		t.Errorf("it is in %s", s.GetString("cwd"))
	}
	if err := unix.Kill(p.PID(), 0); err != nil {
		t.Error(err)
	}
}

// readablePython returns an interpreter of the system.
func readablePython(t *testing.T) string {
	for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
		if exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() == nil {
			return path
		}
	}
	return ""
}

// msgpackFor copies the one package that a child needs to a readable folder. Its pure Python form works with any
// interpreter.
func msgpackFor(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pyproc-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	found, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(interpreter(t))), "lib", "python3*",
		"site-packages", "msgpack", "*.py"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no msgpack: %v", err)
	}
	to := filepath.Join(dir, "msgpack")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(to, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		text, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(f)), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The limits are enforced.
func TestLimits(t *testing.T) {
	p := echo(t, func(c *Config) {
		c.Isolate = true
		c.Limits = Limits{Memory: 2 << 30, Files: 40}
	})
	_, err := p.Call(testContext(t), "allocate", int64(4<<30), nil)
	var e *Exception
	if !errors.As(err, &e) || e.Type != "MemoryError" {
		t.Errorf("got %v, want a MemoryError", err)
	}
	if _, err := p.Call(testContext(t), "allocate", int64(1<<20), nil); err != nil {
		t.Error(err)
	}
}

// A process can hide its memory; children are not affected.
func TestHide(t *testing.T) {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(was), 0, 0, 0) }()
	if err := Hide(); err != nil {
		t.Fatal(err)
	}
	if now, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); now != 0 || err != nil {
		t.Errorf("dumpable is %d, %v", now, err)
	}
	p := echo(t, func(c *Config) { c.Isolate = true })
	if in := p.Isolation(); len(in.Namespaces) == 0 {
		t.Logf("in force: %+v", in)
	}
}
