package pyproc

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// systemPath has the folders of system programs.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// bareEnv returns the environment of an isolated child: the variables that Python needs to find its modules, a locale,
// a time zone, programs, private folders to write to, and a limit of threads.
func bareEnv(python string, l level, h *home) []string {
	at := func(name string) string { return filepath.Join(h.path, name) }
	env := []string{
		"PATH=" + filepath.Dir(python) + ":" + systemPath, "LANG=" + locale(),
		"PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
		"HOME=" + h.path, "XDG_CACHE_HOME=" + at(".cache"), "XDG_CONFIG_HOME=" + at(".config"),
		"XDG_DATA_HOME=" + at(".local/share"), "XDG_STATE_HOME=" + at(".local/state"), "XDG_RUNTIME_DIR=" + at(".run"),
		"MPLCONFIGDIR=" + at(".config/matplotlib"), "NUMBA_CACHE_DIR=" + at(".cache/numba"),
		"CUPY_CACHE_DIR=" + at(".cupy/kernel_cache"), "CUDA_CACHE_PATH=" + at(".nv/ComputeCache"),
	}
	if l.mounts() {
		env = append(env, "TMPDIR=/tmp")
	} else {
		env = append(env, "TMPDIR="+at("tmp"))
	}
	for _, name := range []string{"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "TZ"} {
		if v, ok := syscall.Getenv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	// Packages of `pip install --user` are found relative to the home folder, which differs here.
	base, ok := syscall.Getenv("PYTHONUSERBASE")
	if real, err := os.UserHomeDir(); !ok && err == nil {
		base = filepath.Join(real, ".local")
		_, err = os.Stat(base)
		ok = err == nil
	}
	if ok {
		env = append(env, "PYTHONUSERBASE="+base)
	}
	uid := uint32(os.Getuid())
	if l.drop {
		uid, _ = unprivilegedUser()
	}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		env = append(env, "USER="+u.Username, "LOGNAME="+u.Username)
	}
	return env
}

// locale returns the locale of this process if it uses UTF-8, otherwise one that every system has.
func locale() string {
	for _, name := range []string{"LC_ALL", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); strings.HasSuffix(v, ".utf-8") || strings.HasSuffix(v, ".utf8") {
			return os.Getenv(name)
		}
	}
	return "C.UTF-8"
}
