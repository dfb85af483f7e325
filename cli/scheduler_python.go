package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"go.millstream.dev/cli/internal/doctor"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/dask/commpeer"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
)

// pythonFlags specify the Python interpreter that opens graphs of Python clients.
type pythonFlags struct {
	path         string
	off          bool
	timeout      string
	memory, disk string
	unsafe       bool
}

func (f *pythonFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, "python", "", "interpreter for graphs of Python clients (default: searched for)")
	fs.BoolVar(&f.off, "no-python", false, "no Python; graphs that need it fail")
	fs.StringVar(&f.timeout, "graph-timeout", "", "time limit for opening a graph in Python (default 10m)")
	fs.StringVar(&f.memory, "helper-memory", "", "memory limit of each Python helper, such as 4GiB (default half of "+
		"the "+
		"machine; 0: no limit)")
	fs.StringVar(&f.disk, "helper-disk", "", "size of the private folders of each Python helper, in memory (default "+
		"512MiB)")
	fs.BoolVar(&f.unsafe, "unsafe-python-helpers", false, "Python helpers even if they run as root or can read the "+
		"keys and the journal")
}

func (f *pythonFlags) config() (c scheduler.PythonConfig, err error) {
	if f.off && f.path != "" {
		return c, cmdline.Usagef("--python %s and --no-python exclude each other", f.path)
	}
	c.Interpreter, c.Off = f.path, f.off
	c.AllowUnsafe = f.unsafe
	if f.timeout != "" {
		if c.GraphTimeout, err = parseTimeout("--graph-timeout", f.timeout); err != nil {
			return c, err
		}
	}
	if c.Memory, err = helperBytes("--helper-memory", f.memory); err != nil {
		return c, err
	}
	if f.memory != "" && c.Memory == 0 {
		c.Memory = -1 // no limit
	}
	c.Disk, err = helperBytes("--helper-disk", f.disk)
	if err == nil && f.disk != "" && c.Disk < 1<<20 {
		err = cmdline.Usagef("--helper-disk %s: want at least 1MiB", f.disk)
	}
	return c, err
}

// helperBytes parses the size in a flag, 0 if the flag is empty.
func helperBytes(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := config.ParseBytes(text)
	if err != nil || n < 0 {
		return 0, cmdline.Usagef("%s %s: want a size such as 512MiB or 4GiB", flag, text)
	}
	return n, nil
}

// secretFiles returns the files and folders that the Python helpers of the scheduler must not read: keys and files that
// refer to them. The scheduler adds its journal.
func (f *schedulerFlags) secretFiles(c *config.Config) []string {
	out := []string{f.tlsDir, f.schedulerFile, f.addressFile, f.dashboardTokenFile}
	if file, ok := c.Get(tokenFileKey, nil).(string); ok {
		out = append(out, file)
	}
	if s, err := secure.FromConfig(c); err == nil {
		for _, p := range []secure.KeyPair{s.Client, s.Scheduler, s.Worker} {
			key := cmp.Or(p.Key, p.Cert) // one file may have both
			if key == "" || strings.Contains(key, "\n") {
				continue
			}
			out = append(out, key)
			// A replaced key is a different file, so folders that only their owner can enter are hidden as a whole.
			if info, err := os.Stat(filepath.Dir(key)); err == nil && info.Mode().Perm()&0o077 == 0 &&
				!isHome(filepath.Dir(key)) {
				out = append(out, filepath.Dir(key))
			}
		}
	}
	return slices.DeleteFunc(out, func(path string) bool { return path == "" })
}

// isHome reports whether a folder contains the home or the working directory, whose other files are not secret.
func isHome(dir string) bool {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return true
	}
	home, _ := os.UserHomeDir()
	work, _ := os.Getwd()
	for _, d := range []string{home, work} {
		if rel, err := filepath.Rel(abs, d); d != "" && err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return true
		}
	}
	return false
}

// examinePython starts a Python process as the scheduler does, and describes its sandbox.
func examinePython(ctx context.Context, path string) *doctor.Python {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	in, err := pyproc.Find(ctx, path)
	out := &doctor.Python{Path: in.Path, Version: in.Python, Distributed: in.Distributed, Error: err}
	var missing *pyproc.NotFoundError
	if errors.As(err, &missing) { // the finding has its own advice
		out.Error = errors.New("Tried: " + strings.Join(missing.Tried, "; ") + ".")
		if python, err := benchpeer.FindPython(commpeer.PeerName, os.Environ()); err == nil {
			out.Candidate = python
		}
	}
	if err != nil {
		return out
	}
	p, err := pyproc.Start(ctx, pyproc.Config{
		Python: in.Path, Module: "millstream._echo", Isolate: true, Hide: []string{"/etc/machine-id"},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		out.Error = err
		return out
	}
	defer p.Close()
	i := p.Isolation()
	out.Isolation = append(i.InForce, "bare environment", "no descriptors", "limits on memory and files")
	out.Missing = i.Missing
	return out
}
