package pyproc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/internal/wire/msgpack"
)

// execIn runs a Python program in a child and returns its variable result.
func execIn(t *testing.T, p *Process, program string) any {
	t.Helper()
	m, err := p.Call(testContext(t), "exec", program, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sandboxed starts an isolated child.
func sandboxed(t *testing.T, change func(*Config)) *Process {
	return echo(t, func(c *Config) {
		c.Isolate = true
		if change != nil {
			change(c)
		}
	})
}

// atLevel starts a child at the level with or without namespaces.
func atLevel(t *testing.T, mounts bool, change func(*Config)) *Process {
	t.Helper()
	cfg := echoConfig(t)
	cfg.Isolate = true
	cfg = cfg.withDefaults()
	if change != nil {
		change(&cfg)
	}
	for _, l := range levels(os.Getuid() == 0) {
		if l.mounts() != mounts || l.unsafe || mounts && l.inUser {
			continue
		}
		if !mounts && l.drop { // the unprivileged user cannot read the interpreter of the tests
			cfg.Python, cfg.Env = readablePython(t), append(cfg.Env, "PYTHONPATH="+msgpackFor(t))
		}
		p, err := startAt(testContext(t), cfg, l)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	t.Fatalf("no level with mounts %v", mounts)
	return nil
}

// packages writes Python packages that write files when they are imported, as many do.
func packages(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = publicDir(t)
	for name, text := range map[string]string{
		"writes_home": `
import os, pathlib
(pathlib.Path.home() / ".writes").mkdir()
open(os.path.expanduser("~/.writes/file"), "w").write("x")`,
		"writes_xdg": `
import os
for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
    os.makedirs(os.path.join(os.environ[name], "writes_xdg"))
    open(os.path.join(os.environ[name], "writes_xdg", "file"), "w").write("x")`,
		"writes_matplotlib": `
import os, tempfile
assert os.access(os.environ["MPLCONFIGDIR"], os.W_OK)
tempfile.TemporaryFile(dir=os.environ["MPLCONFIGDIR"]).write(b"x")`,
		"writes_numba": `
import os
path = os.path.join(os.environ["NUMBA_CACHE_DIR"], "module_1")
os.makedirs(path)
open(os.path.join(path, "f-1.py311.nbi"), "wb").write(b"x")`,
		"writes_cupy": `
import os, tempfile
path = os.environ.get("CUPY_CACHE_DIR", os.path.expanduser("~/.cupy/kernel_cache"))
os.makedirs(path, exist_ok=True)
with tempfile.NamedTemporaryFile(dir=path, delete=False) as f:
    f.write(b"x")
os.rename(f.name, os.path.join(path, "kernel.cubin"))`,
		"writes_temporary": `
import os, tempfile
os.rmdir(tempfile.mkdtemp())
tempfile.NamedTemporaryFile().write(b"x")`,
		"writes_tmp": `
import os
os.mkdir("/tmp/writes_tmp")
open("/tmp/writes_tmp/file", "w").write("x")`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return dir, names
}

// publicDir returns a folder that every user can read.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pyproc-test")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// withPath adds a folder to the import path of a child.
func withPath(c *Config, dir string) {
	if rest := os.Getenv(envTestPath); rest != "" {
		dir += ":" + rest
	}
	c.Env = []string{"PYTHONPATH=" + dir}
}

// Packages that write to the home folder, to caches and to temporary folders on import can be imported.
func TestPackagesWriteAtImport(t *testing.T) {
	dir, names := packages(t)
	p := sandboxed(t, func(c *Config) { withPath(c, dir) })
	for _, name := range names {
		if _, err := p.Call(testContext(t), "exec", "import "+name, nil); err != nil {
			t.Errorf("import %s: %v", name, err)
		}
	}
	for _, path := range []string{"/tmp/writes_tmp", filepath.Join(os.Getenv("HOME"), ".writes")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s exists outside of the sandbox", path)
		}
	}
}

// Without namespaces the private folder is on disk: it is removed with the child, also after SIGKILL, and bounded.
func TestPrivateFolderOnDisk(t *testing.T) {
	dir, names := packages(t)
	p := atLevel(t, false, func(c *Config) { c.Limits.Disk = 8 << 20 })
	for _, name := range names {
		if name == "writes_tmp" { // not private here
			continue
		}
		source, err := os.ReadFile(filepath.Join(dir, name+".py"))
		if err == nil {
			_, err = p.Call(testContext(t), "exec", string(source), nil)
		}
		if err != nil {
			t.Errorf("import %s: %v", name, err)
		}
	}
	home := execIn(t, p, "import os; result = os.environ['HOME']").(string)
	if _, err := os.Stat(home); err != nil || !strings.HasPrefix(home, os.TempDir()) {
		t.Errorf("home %s: %v", home, err)
	}
	if err := unix.Kill(p.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("home after SIGKILL: got %v, want fs.ErrNotExist", err)
	}
	p = atLevel(t, false, func(c *Config) { c.Limits.Disk = 8 << 20 })
	_, err := p.Call(testContext(t), "exec", `
import os, time
for i in range(16):
    open(os.path.expanduser(f"~/{i}"), "wb").write(bytes(1 << 20))
time.sleep(1000)`, nil)
	if !errors.Is(err, ErrExited) || !strings.Contains(err.Error(), "private folder larger") {
		t.Errorf("16 MiB in a folder of 8 MiB: got %v, want ErrExited", err)
	}
}

// Folders of processes that have ended are removed at the next start; those in use are not.
func TestStaleFolders(t *testing.T) {
	base := t.TempDir()
	dead, used, fresh := filepath.Join(base, "scheduler-dead"), filepath.Join(base, "scheduler-used"),
		filepath.Join(base, "scheduler-new")
	old := time.Now().Add(-time.Hour)
	for _, dir := range []string{dead, used, fresh} {
		if err := os.MkdirAll(filepath.Join(dir, "x", "home"), 0o700); err != nil {
			t.Fatal(err)
		}
		if dir != fresh {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	fd, err := lockFolder(used)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	removeStale(base)
	for dir, want := range map[string]bool{dead: false, used: true, fresh: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: exists %v, want %v", dir, err == nil, want)
		}
	}
}

// secrets creates a folder of keys and one of a journal, owned by the user of the scheduler.
func secrets(t *testing.T) (dir string, key, journal string) {
	t.Helper()
	dir = publicDir(t)
	key, journal = filepath.Join(dir, "certs", "scheduler-key.pem"), filepath.Join(dir, "journal")
	for _, d := range []string{filepath.Dir(key), journal} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(key, []byte("xyzzy"), 0o644); err != nil { // its mode does not protect it
		t.Fatal(err)
	}
	return dir, key, journal
}

const readAll = `
import os
def attempt(f):
    try:
        return f()
    except OSError as e:
        return ""
result = [attempt(lambda: open(%q).read()), attempt(lambda: open(%q + "/evil", "w").write("x") and "written"),
          attempt(lambda: ",".join(os.listdir(%q))), attempt(lambda: open("/etc/hostname-evil", "w") and "written"),
          attempt(lambda: open(%q + "/evil", "w") and "written")]`

// A child cannot read hidden files, and can write only to its private folders.
func TestHidden(t *testing.T) {
	for _, mounts := range []bool{true, false} {
		t.Run(fmt.Sprintf("mounts %v", mounts), func(t *testing.T) {
			dir, key, journal := secrets(t)
			p := atLevel(t, mounts, func(c *Config) { c.Hide = []string{filepath.Dir(key), journal} })
			if !mounts && p.Isolation().Landlock == 0 {
				t.Log("no Landlock: only the user id keeps the child from the files, see checkExposed")
				return
			}
			got := execIn(t, p, fmt.Sprintf(readAll, key, journal, filepath.Dir(key), dir)).([]any)
			for i, what := range []string{"the key", "the journal's folder", "the list of keys", "/etc",
				"a folder next to them"} {
				if text := got[i].(string); strings.Contains(text, "xyzzy") || strings.Contains(text, "pem") ||
					text == "written" && i != 4 {
					t.Errorf("%s: got %q, want nothing (%+v)", what, text, p.Isolation())
				}
			}
			for _, path := range []string{filepath.Join(journal, "evil"), filepath.Join(dir, "evil")} {
				if _, err := os.Stat(path); err == nil {
					t.Errorf("%s was written", path)
				}
			}
		})
	}
	cfg := Config{Name: "x", Hide: []string{"/keys"}}
	if err := cfg.checkExposed(Isolation{Missing: []string{"Landlock: no"}}); err == nil ||
		!strings.Contains(err.Error(), "--unsafe-python-helpers") || !strings.Contains(err.Error(), "/keys") {
		t.Errorf("neither mounts nor Landlock: got %v, want an error that names the flag and the files", err)
	}
	for _, in := range []Isolation{{Mounts: true}, {Landlock: 1}, {OtherUser: true}} {
		if err := cfg.checkExposed(in); err != nil {
			t.Errorf("%+v: %v", in, err)
		}
	}
}

// Files of the user, services of the system and other processes are not accessible, and there are no capabilities.
func TestOutOfReach(t *testing.T) {
	secret := filepath.Join(os.Getenv("HOME"), ".millstream-test-secret")
	if err := os.WriteFile(secret, []byte("xyzzy"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(secret)
	p := sandboxed(t, nil)
	if text := execIn(t, p, fmt.Sprintf(`
try:
    result = open(%q).read()
except OSError:
    result = ""`, secret)); text != "" {
		t.Errorf("%s: got %q, want nothing", secret, text)
	}
	got := execIn(t, p, `
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def denied(*args):
    ctypes.set_errno(0)
    return libc.syscall(*args) == -1 and ctypes.get_errno() == errno.EPERM
def family(n):
    try:
        socket.socket(n, socket.SOCK_STREAM).close()
        return False
    except OSError as e:
        return e.errno == errno.EAFNOSUPPORT
nr = dict(ptrace=101, mount=165, unshare=272, setns=308, bpf=321, keyctl=250, perf_event_open=298, process_vm_readv=310,
          init_module=175, kexec_load=246, open_by_handle_at=304) if os.uname().machine == "x86_64" else dict(
          ptrace=117, mount=40, unshare=97, setns=268, bpf=280, keyctl=219, perf_event_open=241, process_vm_readv=270,
          init_module=105, kexec_load=104, open_by_handle_at=265)
result = {
    "calls": [n for n, k in nr.items() if not denied(k, 0, 0, 0, 0, 0)],
    "vsock": family(40), "run": sorted(os.listdir("/run")) if os.access("/run", os.R_OK) else [],
    "processes": [n for n in os.listdir("/proc") if n.isdigit()],
    "capabilities": [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff") or line.startswith("CapPrm")],
    "etc": os.access("/etc/passwd", os.R_OK),
}`).(msgpack.Map)
	calls, _ := got.Get("calls")
	if list := calls.([]any); len(list) > 0 {
		t.Errorf("system calls that are not denied: %v", list)
	}
	for name, want := range map[string]any{"vsock": true, "etc": true} {
		if v, _ := got.Get(name); v != want {
			t.Errorf("%s: got %v, want %v", name, v, want)
		}
	}
	if run, _ := got.Get("run"); len(run.([]any)) > 2 {
		t.Errorf("/run: got %v, want nothing but what name resolution needs", run)
	}
	processes, _ := got.Get("processes")
	if list := processes.([]any); len(list) != 1 {
		t.Errorf("processes in /proc: got %v, want only itself", list)
	}
	capabilities, _ := got.Get("capabilities")
	for _, c := range capabilities.([]any) {
		if strings.Trim(c.(string), "0") != "" {
			t.Errorf("capabilities: got %v, want none", c)
		}
	}
}

// With Network a child can listen for others; without, it cannot reach the host.
func TestNetwork(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dial := fmt.Sprintf(`
import socket
try:
    socket.create_connection(("127.0.0.1", %d), timeout=30).close()
    result = "connected"
except OSError as e:
    result = str(e)`, ln.Addr().(*net.TCPAddr).Port)
	for _, mounts := range []bool{true, false} {
		shut := atLevel(t, mounts, nil)
		if got := execIn(t, shut, dial).(string); got == "connected" || shut.Isolation().Network() != "none" {
			t.Errorf("without network (mounts %v): %s, %+v", mounts, got, shut.Isolation())
		}
		open := atLevel(t, mounts, func(c *Config) { c.Network = true })
		if got := execIn(t, open, dial).(string); got != "connected" || open.Isolation().Network() != "host" {
			t.Errorf("with network (mounts %v): %s, %+v", mounts, got, open.Isolation())
		}
		port := execIn(t, open, `
import socket, threading
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
def serve():
    c, _ = s.accept()
    c.sendall(b"hello")
    c.close()
threading.Thread(target=serve, daemon=True).start()
result = s.getsockname()[1]`).(int64)
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Minute)
		if err != nil {
			t.Fatalf("a port that the child listens on (mounts %v): %v", mounts, err)
		}
		b := make([]byte, 5)
		if _, err := conn.Read(b); err != nil || string(b) != "hello" {
			t.Errorf("got %q, %v", b, err)
		}
		_ = conn.Close()
	}
}

// Memory, processes and files are bounded.
func TestDefaultLimits(t *testing.T) {
	p := sandboxed(t, func(c *Config) { c.Limits.Disk = 4 << 20 })
	got := execIn(t, p, `
import os, resource, signal
n, error = 0, ""
children = []
try:
    for _ in range(2000):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except OSError as e:
    error = type(e).__name__
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
def fill(path):
    try:
        for i in range(64):
            open(f"{path}/{i}", "wb").write(bytes(1 << 20))
        return "all"
    except OSError as e:
        return e.errno
result = {"forks": len(children), "error": error, "disk": fill(os.environ["HOME"]), "tmp": fill("/tmp"),
          "memory": resource.getrlimit(resource.RLIMIT_DATA)[1], "files": resource.getrlimit(resource.RLIMIT_NOFILE)[1]}`).(msgpack.Map)
	if n, _ := got.Get("forks"); n.(int64) > 300 || got.GetString("error") == "" {
		t.Errorf("%v processes could be made, %v", n, got)
	}
	for _, name := range []string{"disk", "tmp"} {
		if v, _ := got.Get(name); v != int64(syscall.ENOSPC) {
			t.Errorf("writing 64 MiB into %s of 4 MiB: got %v, want ENOSPC", name, v)
		}
	}
	if v, _ := got.Get("memory"); v.(int64) <= 0 || v.(int64) > max(sysmem.Total()/2, 1<<30) {
		t.Errorf("memory limit: got %v, want at most half of the memory", v)
	}
	if v, _ := got.Get("files"); v.(int64) > 1024 {
		t.Errorf("%v descriptors", v)
	}
	p = sandboxed(t, func(c *Config) { c.Limits.Memory = 1 << 30 })
	if _, err := p.Call(testContext(t), "allocate", int64(3<<30), nil); err == nil {
		t.Error("3 GiB were allocated with a limit of 1 GiB")
	}
}

// As root, a Python whose packages other users cannot read is rejected, with a remedy in the error.
func TestRefusesRoot(t *testing.T) {
	if os.Getuid() != 0 {
		return // only for root
	}
	dir := publicDir(t)
	if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte("x = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret.py"), []byte("x = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := echoConfig(t)
	cfg.Isolate, cfg.Module, cfg.Env = true, "secret", []string{"PYTHONPATH=" + dir}
	p, err := Start(testContext(t), cfg)
	if err == nil {
		_ = p.Close()
		t.Fatal("a module that only root can read was imported")
	}
	for _, text := range []string{"readable to other users", "--unsafe-python-helpers"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	cfg = echoConfig(t)
	cfg.Isolate, cfg.AllowUnsafe = true, true
	cfg = cfg.withDefaults()
	p, err = startAt(testContext(t), cfg, levels(true)[3])
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if in := p.Isolation(); in.OtherUser || in.UID != 0 || !in.Mounts || in.Landlock == 0 {
		t.Errorf("with AllowUnsafe: got %+v, want root with mounts and Landlock", in)
	}
}

// The same tests for a scheduler of an ordinary user.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // all tests already run as an ordinary user
	}
	python := readablePython(t)
	if python == "" {
		t.Log("no interpreter that other users can read")
		return
	}
	dir := publicDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pyproc.test"), program, 0o755)
	}
	home := filepath.Join(dir, "home")
	if err == nil {
		err = errors.Join(os.Mkdir(home, 0o700), os.Chown(home, 12345, 12345))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(tests string) {
		cmd := exec.CommandContext(testContext(t), filepath.Join(dir, "pyproc.test"), "-test.v", "-test.run", tests)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + systemPath, "HOME=" + home, envTestPython + "=" + python, envTestPath + "=" +
			msgpackFor(t)}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("as user 12345: %v\n%s", err, out)
		}
		t.Logf("%s", out)
	}
	run("^(TestIsolation|TestPackagesWriteAtImport|TestPrivateFolderOnDisk|TestHidden|TestOutOfReach|TestNetwork|" +
		"TestDefaultLimits|TestHide)$")
	withMount(t, filepath.Join(dir, "mount"), func() { run("^(TestIsolation|TestPackagesWriteAtImport|TestHidden)$") })
}

// withMount calls f in a mount namespace of its own, in which a file system is mounted at a path. Processes that f
// starts are in the namespace.
func withMount(t *testing.T, path string, f func()) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine: no other one gets the namespace
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", path, "tmpfs", 0, "size=1m")
		}
		if err == nil {
			f()
		}
		failed <- err
	}()
	switch err := <-failed; {
	case errors.Is(err, unix.EPERM):
		t.Logf("mount below %s: %v", filepath.Dir(path), err) // a container without the capability
	case err != nil:
		t.Errorf("mount below %s: %v", filepath.Dir(path), err)
	}
}
