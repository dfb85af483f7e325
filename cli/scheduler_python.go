package cli

import (
	"github.com/spf13/pflag"

	"go.millstream.dev/scheduler"
)

// pythonFlags say which Python opens the graphs of Python clients.
type pythonFlags struct {
	path    string
	off     bool
	timeout string
}

func (f *pythonFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, "python", "", "interpreter for graphs of Python clients (default: found)")
	fs.BoolVar(&f.off, "no-python", false, "run no Python: graphs that need it fail")
	fs.StringVar(&f.timeout, "graph-timeout", "", "time to open one such graph (default 10m)")
}

func (f *pythonFlags) config() (c scheduler.PythonConfig, err error) {
	if f.off && f.path != "" {
		return c, usagef("--python %s and --no-python: give one of them", f.path)
	}
	c.Interpreter, c.Off = f.path, f.off
	if f.timeout != "" {
		c.GraphTimeout, err = parseTimeout("--graph-timeout", f.timeout)
	}
	return c, err
}
