package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"go.millstream.dev/cluster/internal/pynanny"
	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker"
)

// teardownTime is how long preloads and plugins of a nanny may take to be torn down.
const teardownTime = 5 * time.Second

// newPython returns the Python helper of a nanny, which has no process yet.
func (s *nannyServer) newPython(cfg worker.Config) *pynanny.Helper {
	n := s.n
	return pynanny.New(pynanny.Config{
		Interpreter: cfg.Python.Interpreter, Env: inheritConfig(os.Environ()),
		Preload: n.cfg.Preload, PreloadArgv: n.cfg.PreloadArgv,
		Settings: func() msgpack.Map { return s.pythonSettings(cfg) },
		Nanny: pynanny.Nanny{
			Info: s.pythonInfo,
			Kill: func(ctx context.Context, reason string) error {
				s.note("worker killed", reason)
				return n.Kill(ctx)
			},
			Restart: func(ctx context.Context, reason string) error {
				if n.Info().Starts == 0 {
					return nil // the first process has the changes
				}
				s.note("worker restarted", reason)
				return n.Restart(ctx)
			},
			Ready: n.Ready,
			End: func(graceful bool, reason string) {
				if graceful {
					s.note("worker will not be replaced", reason)
					n.final.Store(true)
					return
				}
				s.note("nanny closed", reason)
				n.stopOnce.Do(func() { n.stop <- "close" })
			},
		},
		Logger: n.cfg.Logger, Keep: s.keep,
	})
}

// pythonSettings returns the settings of the Nanny that Python code sees.
func (s *nannyServer) pythonSettings(cfg worker.Config) msgpack.Map {
	spec := &s.n.spec
	resources, security := msgpack.Map{}, msgpack.Map{}
	for k, v := range cfg.Resources {
		resources.Set(k, v)
	}
	for k, v := range cfg.Python.Security {
		security.Set(k, v)
	}
	host, _, err := comm.AddressHostPort(s.address)
	if err != nil {
		host = "127.0.0.1"
	}
	return msgpack.MapOf("scheduler", spec.Scheduler, "address", s.address, "host", host, "name", spec.Name,
		"nthreads", cmp.Or(spec.Threads, CPUs()), "memory_limit", spec.MemoryLimit, "directory", cfg.LocalDirectory,
		"resources", resources, "security", security, "death_timeout", spec.DeathTimeout.Seconds(),
		"preload", cfg.Python.Preload, "preload_argv", cfg.Python.PreloadArgv)
}

// pythonInfo describes the worker process to Python code.
func (s *nannyServer) pythonInfo() msgpack.Map {
	i := s.n.Info()
	return msgpack.MapOf("address", i.Address, "pid", i.PID, "state", string(i.State), "directory", "")
}

// plugins reads the plugins in the reply to register_nanny. Without Python they are rejected.
func (s *nannyServer) plugins(reply msgpack.Map) (out []pynanny.Plugin) {
	v, _ := reply.Get("nanny-plugins")
	m, _ := v.(msgpack.Map)
	for _, p := range m {
		name, pickle := fmt.Sprint(p.Key), []byte(nil)
		if b, ok := p.Value.([]byte); ok {
			pickle = slices.Clone(b)
		}
		if s.python == nil || pickle == nil {
			s.rejectPlugin(name)
			continue
		}
		out = append(out, pynanny.Plugin{Name: name, Pickle: pickle})
	}
	return out
}

// addPlugin serves plugin_add.
func (s *nannyServer) addPlugin(ctx context.Context, r *rpc.Request) (any, error) {
	if s.python != nil {
		return s.python.PluginAdd(ctx, r)
	}
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		return nil, err
	}
	return rpc.ErrorMessage(&rpc.Exception{Type: "NotImplementedError", Message: s.rejectPlugin(name)}, "error")
}

// removePlugin serves plugin_remove.
func (s *nannyServer) removePlugin(ctx context.Context, r *rpc.Request) (any, error) {
	if s.python != nil {
		return s.python.PluginRemove(ctx, r)
	}
	return msgpack.MapOf("status", "OK"), nil
}

// run serves Client.run(nanny=True).
func (s *nannyServer) run(ctx context.Context, r *rpc.Request) (any, error) {
	if s.python != nil {
		return s.python.Forward(ctx, r)
	}
	return rpc.ErrorMessage(&rpc.Exception{Type: "NotImplementedError",
		Message: fmt.Sprintf("the nanny at %s has no Python; omit nanny=True, or leave out --no-python", s.address)},
		"error")
}

// rejectPlugin logs a nanny plugin, which is not run, and returns the reason for the client.
func (s *nannyServer) rejectPlugin(name string) string {
	text := fmt.Sprintf("nanny plugin %s not run: the nanny at %s has no Python; leave out --no-python, use a "+
		"WorkerPlugin, or set variables in the environment of `millstream worker`", name, s.address)
	s.n.cfg.Logger.Warn("nanny plugin not run", "plugin", name, "reason", text)
	s.keep("WARNING", text)
	return text
}

// awaitPlugins waits until preloads and plugins of the nanny are set up, which may change the first worker process. It
// reports whether to start the process.
func (n *Nanny) awaitPlugins() (bool, error) {
	if n.server == nil {
		return true, nil
	}
	for {
		select {
		case err := <-n.server.prepared:
			return err == nil, err
		case down := <-n.redo:
			close(down) // no process runs yet
		case <-n.stop:
			return false, nil
		case <-n.kill:
			return false, nil
		}
	}
}

// next returns the specification and the environment of the next process, with the changes of preloads and plugins.
func (n *Nanny) next() (WorkerSpec, []string) {
	spec, env := n.spec, slices.Concat(configuredEnv(), n.cfg.Env)
	if n.server == nil || n.server.python == nil {
		return spec, env
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-n.kill:
			cancel()
		case <-ctx.Done():
		}
	}()
	s := n.server.python.WorkerSettings(ctx)
	changed := spec
	if s.Threads != nil {
		changed.Threads = *s.Threads
	}
	if s.Name != nil {
		changed.Name = *s.Name
	}
	if s.MemoryLimit != nil {
		changed.MemoryLimit = *s.MemoryLimit
	}
	if s.Resources != nil {
		changed.Resources = s.Resources
	}
	if s.Preload != nil {
		changed.Preload = s.Preload
	}
	if s.PreloadArgv != nil {
		changed.PreloadArgv = s.PreloadArgv
	}
	if err := changed.check(); err != nil {
		n.cfg.Logger.Warn("settings of a nanny plugin ignored", "error", err)
		changed = spec
	}
	return changed, append(env, s.Env...)
}

// configuredEnv returns the variables of distributed.nanny.pre-spawn-environ and distributed.nanny.environ that are not
// set in the environment.
func configuredEnv() []string {
	c, err := config.Default()
	if err != nil {
		return nil // the child reads the same configuration and reports the error
	}
	var out []string
	for _, key := range []string{"distributed.nanny.pre-spawn-environ", "distributed.nanny.environ"} {
		m, _ := c.Get(key, nil).(*config.Map)
		for e := range m.All() {
			name := fmt.Sprint(e.Key)
			if _, set := os.LookupEnv(name); !set && e.Value != nil {
				out = append(out, name+"="+fmt.Sprint(e.Value))
			}
		}
	}
	return out
}
