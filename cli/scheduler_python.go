package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"go.millstream.dev/internal/doctor"
	"go.millstream.dev/internal/pyproc"
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

// examinedPython starts a Python process as the scheduler does, and tells how it is shut in.
func examinedPython(ctx context.Context, path string) *doctor.Python {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	in, err := pyproc.Find(ctx, path)
	out := &doctor.Python{Path: in.Path, Version: in.Python, Distributed: in.Distributed, Error: err}
	if err != nil {
		return out
	}
	p, err := pyproc.Start(ctx, pyproc.Config{Python: in.Path, Module: "millstream._echo", Isolate: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		out.Error = err
		return out
	}
	defer p.Close()
	i := p.Isolation()
	if i.OtherUser {
		out.Isolation = append(out.Isolation, "another user id")
	}
	for _, n := range i.Namespaces {
		out.Isolation = append(out.Isolation, n+" namespace")
	}
	if i.NoNewPrivs {
		out.Isolation = append(out.Isolation, "no new privileges")
	}
	out.Isolation = append(out.Isolation, "no environment", "no descriptors")
	out.Missing = i.Missing
	return out
}
