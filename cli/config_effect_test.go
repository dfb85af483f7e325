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

// effectSource is one way to say a setting to a process.
type effectSource struct {
	name    string
	section string // of the switches, or "" for flags
	// say adds keys under a section to the process.
	say func(p *effectProcess, section string, keys map[string]string)
}

// effectProcess is a process to be started.
type effectProcess struct {
	t    *testing.T
	env  []string
	args []string
}

func (p *effectProcess) yaml(section string, keys map[string]string) {
	for key, value := range keys {
		var b strings.Builder
		parts := strings.Split(section+"."+key, ".")
		for i, part := range parts {
			b.WriteString(strings.Repeat("  ", i) + part + ":")
			if i < len(parts)-1 {
				b.WriteString("\n")
			}
		}
		b.WriteString(" " + value + "\n")
		file := filepath.Join(p.t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			p.t.Fatal(err)
		}
		p.args = append(p.args, "--file", file)
	}
}

func (p *effectProcess) variables(section string, keys map[string]string) {
	for key, value := range keys {
		name := strings.ToUpper(strings.NewReplacer(".", "__", "-", "_").Replace(section + "." + key))
		p.env = append(p.env, "DASK_"+name+"="+value)
	}
}

func (p *effectProcess) set(section string, keys map[string]string) {
	for key, value := range keys {
		p.args = append(p.args, "--set", section+"."+key+"="+value)
	}
}

func (p *effectProcess) run() configReport {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "millstream", append([]string{"config", "show", "--json", "--ucx"}, p.args...)...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DASK_") && !strings.HasPrefix(kv, "UCX_") && !strings.HasPrefix(kv, "HOME=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	// UCX says which of the transports it lacks; that is not what is tested.
	cmd.Env = append(append(cmd.Env, "HOME="+p.t.TempDir(), "DASK_ROOT_CONFIG=/nowhere", "UCX_LOG_LEVEL=error"), p.env...)
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
func effectSources() []effectSource {
	var all []effectSource
	for _, section := range []string{"distributed-ucxx", "distributed.comm.ucx", "distributed.ucx", "ucx"} {
		all = append(all,
			effectSource{"file " + section, section, (*effectProcess).yaml},
			effectSource{"variable " + section, section, (*effectProcess).variables},
			effectSource{"Set " + section, section, (*effectProcess).set})
	}
	return all
}

// onlyTCP reports whether UCX found nothing but tcp, as told.
func onlyTCP(r configReport) bool {
	return len(r.Transports) > 0 && !slices.ContainsFunc(r.Transports, func(t string) bool { return !strings.HasPrefix(t, "tcp/") })
}

// Every setting from every source shows in a process: UCX's own settings and transports, the
// wish for a CUDA context, and the pool.
func TestConfigEffects(t *testing.T) {
	pools := map[string]string{"distributed-ucxx": "distributed-ucxx.rmm", "distributed.comm.ucx": "distributed.rmm", "distributed.ucx": "distributed.comm.ucx.rmm", "ucx": "rmm"}
	for _, c := range []struct {
		name     string
		keys     map[string]string
		flags    []string
		variable string // of UCX, that says the same
		effect   func(configReport) bool
	}{
		{"tcp", map[string]string{"tcp": "true"}, []string{"--enable-tcp-over-ucx"}, "UCX_TLS=tcp",
			func(r configReport) bool { return r.UCX["TLS"] == "tcp" && onlyTCP(r) && !r.CUDAContext }},
		{"nvlink", map[string]string{"nvlink": "true"}, []string{"--enable-nvlink"}, "UCX_TLS=tcp,cuda_copy,cuda_ipc",
			func(r configReport) bool { return r.UCX["TLS"] == "tcp,cuda_copy,cuda_ipc" && r.CUDAContext }},
		{"infiniband", map[string]string{"infiniband": "true"}, []string{"--enable-infiniband"}, "UCX_TLS=rc,tcp,cuda_copy",
			func(r configReport) bool { return r.UCX["TLS"] == "rc,tcp,cuda_copy" && r.CUDAContext }},
		{"rdmacm", map[string]string{"rdmacm": "true", "infiniband": "true"}, []string{"--enable-rdmacm", "--enable-infiniband"}, "UCX_SOCKADDR_TLS_PRIORITY=rdmacm",
			func(r configReport) bool { return r.UCX["SOCKADDR_TLS_PRIORITY"] == "rdmacm" }},
		{"cuda-copy", map[string]string{"cuda-copy": "true"}, []string{"--enable-cuda-copy"}, "UCX_TLS=tcp,cuda_copy",
			func(r configReport) bool { return r.UCX["TLS"] == "tcp,cuda_copy" && r.CUDAContext }},
		{"create-cuda-context", map[string]string{"create-cuda-context": "true"}, []string{"--enable-cuda-context"}, "",
			func(r configReport) bool { return r.UCX["TLS"] == "all" && r.CUDAContext }},
		{"no CUDA context", map[string]string{"create-cuda-context": "false", "nvlink": "true"}, []string{"--disable-cuda-context", "--enable-nvlink"}, "",
			func(r configReport) bool { return r.UCX["TLS"] == "tcp,cuda_copy,cuda_ipc" && !r.CUDAContext }},
		{"multi-buffer", map[string]string{"multi-buffer": "true"}, []string{"--enable-multi-buffer"}, "",
			func(r configReport) bool { return r.MultiBuffer && r.UCX["TLS"] == "all" }},
		{"net-devices", map[string]string{"environment.net-devices": "lo", "tcp": "true"}, []string{"--net-devices=lo", "--enable-tcp-over-ucx"}, "UCX_NET_DEVICES=lo",
			func(r configReport) bool {
				return r.UCX["NET_DEVICES"] == "lo" && slices.Contains(r.Transports, "tcp/lo") && !slices.ContainsFunc(r.Transports, func(t string) bool { return strings.HasPrefix(t, "tcp/") && t != "tcp/lo" })
			}},
		{"environment", map[string]string{"environment.rndv-thresh": "8192"}, []string{"--ucx-option=RNDV_THRESH=8192"}, "UCX_RNDV_THRESH=8192",
			func(r configReport) bool { return r.UCX["RNDV_THRESH"] == "8K" || r.UCX["RNDV_THRESH"] == "8192" }},
		{"pool", map[string]string{"pool-size": "1GB"}, []string{"--rmm-pool-size=1GB"}, "",
			func(r configReport) bool { return r.PoolBytes == 1_000_000_000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if nothing := (&effectProcess{t: t}).run(); c.effect(nothing) {
				t.Fatalf("the effect is there without the setting: %+v", nothing)
			}
			try := func(source string, p *effectProcess) {
				if r := p.run(); !c.effect(r) {
					t.Errorf("%s has no effect: UCX %v, transports %v, context %v, pool %d", source, r.UCX, r.Transports, r.CUDAContext, r.PoolBytes)
				}
			}
			for _, s := range effectSources() {
				p := &effectProcess{t: t}
				section := s.section
				if c.name == "pool" {
					section = pools[section]
				}
				s.say(p, section, c.keys)
				try(s.name, p)
			}
			try("flags", &effectProcess{t: t, args: c.flags})
			if c.variable != "" {
				try(c.variable, &effectProcess{t: t, env: []string{c.variable}})
			}
		})
	}
	t.Run("net-devices, old key", func(t *testing.T) {
		for _, variable := range []string{"DASK_UCX__NET_DEVICES=lo", "DASK_DISTRIBUTED__UCX__NET_DEVICES=lo", "DASK_DISTRIBUTED__COMM__UCX__NET_DEVICES=lo"} {
			if r := (&effectProcess{t: t, env: []string{variable}}).run(); r.UCX["NET_DEVICES"] != "lo" || len(r.Warnings) != 1 {
				t.Errorf("%s: %v, warnings %q", variable, r.UCX, r.Warnings)
			}
		}
	})
}
