package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// effectSource is one way to say settings to a process: a place and a spelling.
type effectSource struct {
	section string // of UCX's settings
	pool    string // of the pool's
	say     func(p *effectProcess, key, value string)
}

// effectProcess is a process to be started.
type effectProcess struct {
	t    *testing.T
	env  []string
	args []string
}

func (p *effectProcess) file(key, value string) {
	var b strings.Builder
	parts := strings.Split(key, ".")
	for i, part := range parts {
		b.WriteString(strings.Repeat("  ", i) + part + ":")
		if i < len(parts)-1 {
			b.WriteString("\n")
		}
	}
	b.WriteString(" " + value + "\n")
	name := filepath.Join(p.t.TempDir(), "c.yaml")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.args = append(p.args, "--file", name)
}

func (p *effectProcess) variable(key, value string) {
	p.env = append(p.env, "DASK_"+strings.ToUpper(strings.NewReplacer(".", "__", "-", "_").Replace(key))+"="+value)
}

func (p *effectProcess) set(key, value string) { p.args = append(p.args, "--set", key+"="+value) }

func (p *effectProcess) run() configReport {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "millstream", append([]string{"config", "show", "--json", "--ucx"},
		p.args...)...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DASK_") && !strings.HasPrefix(kv, "UCX_") && !strings.HasPrefix(kv, "HOME=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	// UCX says which of the transports it lacks; that is not what is tested.
	cmd.Env = append(append(cmd.Env, "HOME="+p.t.TempDir(), "DASK_ROOT_CONFIG="+p.t.TempDir(), "UCX_LOG_LEVEL=error"),
		p.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("%v %v: %v\n%s", p.env, p.args, err, stderr.String())
	}
	var r configReport
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// effectSources are all spellings in files, variables and Set.
var effectSources = map[string]effectSource{
	"new, file":             {"distributed-ucxx", "distributed-ucxx.rmm", (*effectProcess).file},
	"new, variable":         {"distributed-ucxx", "distributed-ucxx.rmm", (*effectProcess).variable},
	"new, Set":              {"distributed-ucxx", "distributed-ucxx.rmm", (*effectProcess).set},
	"legacy, file":          {"distributed.comm.ucx", "distributed.rmm", (*effectProcess).file},
	"legacy, variable":      {"distributed.comm.ucx", "distributed.rmm", (*effectProcess).variable},
	"legacy, Set":           {"distributed.comm.ucx", "distributed.rmm", (*effectProcess).set},
	"old, file":             {"ucx", "rmm", (*effectProcess).file},
	"old, variable":         {"ucx", "rmm", (*effectProcess).variable},
	"old, Set":              {"ucx", "rmm", (*effectProcess).set},
	"moved by Dask, inside": {"distributed.ucx", "distributed.comm.ucx.rmm", (*effectProcess).variable},
}

// Every setting from every source shows in a process: UCX's own settings and transports, the
// wish for a CUDA context, and the pool. Settings that do not touch each other share a process.
func TestConfigEffects(t *testing.T) {
	type effects map[string]func(configReport) bool
	tls := func(want string, context bool) func(configReport) bool {
		return func(r configReport) bool { return r.UCX["TLS"] == want && r.CUDAContext == context }
	}
	for _, c := range []struct {
		name      string
		keys      map[string]string
		flags     []string
		variables []string // of UCX, that say the same as far as they can
		effects   effects
		native    effects // those that have no variable of UCX
	}{
		{"tcp, net-devices, environment, multi-buffer, pool",
			map[string]string{"tcp": "true", "environment.net-devices": "lo", "environment.rndv-thresh": "8192",
				"multi-buffer": "true", "rmm.pool-size": "1GB"},
			[]string{"--enable-tcp-over-ucx", "--net-devices=lo", "--ucx-option=RNDV_THRESH=8192",
				"--enable-multi-buffer", "--rmm-pool-size=1GB"},
			[]string{"UCX_TLS=tcp", "UCX_NET_DEVICES=lo", "UCX_RNDV_THRESH=8192"},
			effects{
				"tcp": tls("tcp", false),
				"net-devices": func(r configReport) bool {
					return r.UCX["NET_DEVICES"] == "lo" && slices.Equal(r.Transports, []string{"tcp/lo"})
				},
				"environment": func(r configReport) bool {
					return r.UCX["RNDV_THRESH"] == "8K" || r.UCX["RNDV_THRESH"] == "8192"
				},
			},
			effects{
				"multi-buffer": func(r configReport) bool { return r.MultiBuffer },
				"pool":         func(r configReport) bool { return r.PoolBytes == 1_000_000_000 },
			}},
		{"nvlink", map[string]string{"nvlink": "true"}, []string{"--enable-nvlink"},
			[]string{"UCX_TLS=tcp,cuda_copy,cuda_ipc"},
			effects{"nvlink": tls("tcp,cuda_copy,cuda_ipc", true)}, nil},
		{"infiniband, rdmacm", map[string]string{"infiniband": "true", "rdmacm": "true"},
			[]string{"--enable-infiniband", "--enable-rdmacm"},
			[]string{"UCX_TLS=rc,tcp,cuda_copy", "UCX_SOCKADDR_TLS_PRIORITY=rdmacm"},
			effects{"infiniband": tls("rc,tcp,cuda_copy", true), "rdmacm": func(r configReport) bool {
				return r.UCX["SOCKADDR_TLS_PRIORITY"] == "rdmacm"
			}}, nil},
		{"cuda-copy without a context", map[string]string{"cuda-copy": "true", "create-cuda-context": "false"},
			[]string{"--enable-cuda-copy", "--disable-cuda-context"}, nil,
			nil, effects{"cuda-copy": tls("tcp,cuda_copy", false)}},
		{"create-cuda-context", map[string]string{"create-cuda-context": "true"}, []string{"--enable-cuda-context"},
			nil,
			nil, effects{"create-cuda-context": tls("all", true)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nothing := (&effectProcess{t: t}).run()
			try := func(source string, p *effectProcess, all ...effects) {
				r := p.run()
				for _, e := range all {
					for name, effect := range e {
						if !effect(r) {
							t.Errorf("%s: %s has no effect: UCX %v, transports %v, context %v, pool %d", source, name,
								r.UCX, r.Transports, r.CUDAContext, r.PoolBytes)
						}
						if effect(nothing) {
							t.Errorf("the effect of %s is there without it", name)
						}
					}
				}
			}
			for name, s := range effectSources {
				p := &effectProcess{t: t}
				for key, value := range c.keys {
					if rest, ok := strings.CutPrefix(key, "rmm."); ok {
						s.say(p, s.pool+"."+rest, value)
					} else {
						s.say(p, s.section+"."+key, value)
					}
				}
				try(name, p, c.effects, c.native)
			}
			try("flags", &effectProcess{t: t, args: c.flags}, c.effects, c.native)
			if c.variables != nil {
				try("UCX's variables", &effectProcess{t: t, env: c.variables}, c.effects)
			}
		})
	}
	t.Run("net-devices, old key", func(t *testing.T) {
		for _, variable := range []string{"DASK_UCX__NET_DEVICES=lo", "DASK_DISTRIBUTED__UCX__NET_DEVICES=lo",
			"DASK_DISTRIBUTED__COMM__UCX__NET_DEVICES=lo"} {
			if r := (&effectProcess{t: t, env: []string{variable}}).run(); r.UCX["NET_DEVICES"] != "lo" ||
				len(r.Warnings) != 1 {
				t.Errorf("%s: %v, warnings %q", variable, r.UCX, r.Warnings)
			}
		}
	})
}
