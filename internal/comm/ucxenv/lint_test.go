package ucxenv

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// laptop is a host without RDMA and GPU, hpc one with both.
var (
	laptop = Host{
		Version:    "1.21.0",
		Transports: []string{"self", "tcp", "sysv", "posix", "cma"},
		NetDevices: []string{"lo", "eth0"},
	}
	hpc = Host{
		Version: "1.21.0",
		Transports: []string{"self", "tcp", "sysv", "posix", "cma", "rc_verbs", "rc_mlx5", "ud_mlx5", "ud_verbs",
			"dc_mlx5", "cuda_copy", "cuda_ipc"},
		NetDevices: []string{"lo", "eth0", "ib0", "mlx5_0:1", "mlx5_1:1"},
		RDMA:       true,
		GPU:        true,
	}
)

func worst(found []Finding) Level {
	level := Level(-1)
	for _, f := range found {
		level = max(level, f.Level)
	}
	return level
}

// The three set-ups of UCX-Py's first guide. With UCX 1.13.1 and 1.21.0 all three
// fail: the first and the last cannot listen ("none of the available components
// supports it") and a client that connects is killed by an assertion (1.13.1) or
// SIGSEGV (1.21.0); the second does not get past ucp_init without a GPU and has no
// network with one. The repairs below were run with both and work.
func TestUCXPyGuideSetups(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		host Host
		want []string
	}{
		{"TCP on eth0 with CUDA",
			[]string{"UCX_TLS=tcp,sockcm,cuda_copy,cuda_ipc", "UCX_SOCKADDR_TLS_PRIORITY=sockcm", "UCXPY_IFNAME=eth0"},
			laptop,
			[]string{"UCXPY_IFNAME=eth0", "UCX_SOCKADDR_TLS_PRIORITY=tcp", "UCX_TLS=tcp,cuda_copy,cuda_ipc"}},
		{"InfiniBand on ib0 with CUDA",
			[]string{"UCX_TLS=sockcm,cuda_copy,cuda_ipc", "UCX_SOCKADDR_TLS_PRIORITY=sockcm", "UCXPY_IFNAME=ib0"}, hpc,
			[]string{"UCXPY_IFNAME=ib0", "UCX_SOCKADDR_TLS_PRIORITY=rdmacm,tcp", "UCX_TLS=rc,tcp,cuda_copy,cuda_ipc"}},
		{"InfiniBand on ib0 with CUDA, on a host without either",
			[]string{"UCX_TLS=sockcm,cuda_copy,cuda_ipc", "UCX_SOCKADDR_TLS_PRIORITY=sockcm", "UCXPY_IFNAME=ib0"},
			laptop,
			[]string{"UCXPY_IFNAME=ib0", "UCX_SOCKADDR_TLS_PRIORITY=tcp", "UCX_TLS=tcp,cuda_copy,cuda_ipc"}},
		{"TCP on eno0 without CUDA",
			[]string{"UCX_TLS=tcp,sockcm", "UCX_SOCKADDR_TLS_PRIORITY=sockcm", "UCXPY_IFNAME=eno0"}, laptop,
			[]string{"UCXPY_IFNAME=eno0", "UCX_SOCKADDR_TLS_PRIORITY=tcp", "UCX_TLS=tcp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := Lint(c.env, c.host)
			if worst(found) != Fail {
				t.Errorf("found %v, want an error", found)
			}
			if got := Repair(c.env, found); !slices.Equal(got, c.want) {
				t.Errorf("repaired to %q, want %q", got, c.want)
			}
			for _, s := range c.want[1:] {
				if !slices.ContainsFunc(found, func(f Finding) bool {
					return strings.Contains(f.String(), "export "+s)
				}) {
					t.Errorf("no finding says export %s: %v", s, found)
				}
			}
			for _, f := range Lint(c.want, c.host) {
				if f.Level == Fail || strings.Contains(f.Problem, "sockcm") {
					t.Errorf("after the repair: %v", f)
				}
			}
		})
	}
}

func TestLintTLS(t *testing.T) {
	gpuless := hpc
	gpuless.GPU = false
	for _, c := range []struct {
		name  string
		value string
		host  Host
		level Level // -1: nothing to say
		has   string
		want  string // value after repair; "-" for unset, "" for unchanged
	}{
		{"all", "all", laptop, -1, "", ""},
		{"tcp", "tcp", laptop, -1, "", ""},
		{"usual", "tcp,sm,self", laptop, -1, "", ""},
		{"explicit name and bootstrap", `tcp,\rc_mlx5,ud_mlx5:aux,cuda`, hpc, -1, "", ""},
		{"aliases", "rc_x,ud_x,tcp,shm,cuda", hpc, -1, "", ""},
		{"negated", "^cuda_ipc", hpc, -1, "", ""},
		{"negated without GPU", "^cuda", laptop, -1, "", ""},
		{"empty items", "tcp,,sm", laptop, -1, "", ""},
		{"rc alone with RDMA", "rc", gpuless, -1, "", ""},
		{"nothing known about the host", "rc", Host{}, -1, "", ""},

		{"empty", "", laptop, Fail, "names no transport", "-"},
		{"only commas", " ,, ", laptop, Fail, "names no transport", "-"},
		{"only negation", "^", laptop, Fail, "names no transport", "-"},
		{"all and more", "all,tcp", laptop, Fail, "refuses to start", "all"},
		{"not all", "^all", laptop, Warn, "none", "-"},
		{"sockcm", "tcp,sockcm", laptop, Warn, "sockcm is gone", "tcp"},
		{"sockcm negated", "^sockcm", laptop, Warn, "sockcm is gone", "-"},
		{"capitals", "TCP", laptop, Fail, "reaches", "tcp"},
		{"misspelt", "tcpp,sm", laptop, Warn, "no transport tcpp", "tcp,sm"},
		{"unknown", "tcp,quantum", laptop, Warn, "no transport quantum", "tcp"},
		{"ambiguous", "tcp,rc_z", hpc, Warn, "rc_v or rc_x", "tcp,cuda_copy,cuda_ipc"},
		{"inner negation", "tcp,^shm", laptop, Warn, "a part of its name", "tcp"},
		{"only self", "self", laptop, Fail, "within one process", "tcp,sm,self"},
		{"only self with RDMA", "self", gpuless, Fail, "within one process", "rc,tcp,sm,self"},
		{"shared memory only", "sm", laptop, Warn, "no network transport", "tcp,sm"},
		{"cma only", "cma", laptop, Fail, "reaches", "tcp,cma"},
		{"cuda only", "cuda", hpc, Fail, "reaches", "rc,tcp,cuda"},
		{"no tcp", "^tcp", laptop, Warn, "no network transport", "-"},
		{"no tcp with RDMA", "^tcp", hpc, -1, "", ""},
		{"no tcp, no shared memory", "^tcp,sm", laptop, Fail, "within one process", "^sm"},
		{"rc without RDMA", "rc", laptop, Fail, "no RDMA device", "tcp,rc"},
		{"rc without cuda_copy", "rc,tcp", hpc, Warn, "leaves out cuda_copy", "rc,tcp,cuda_copy,cuda_ipc"},
		{"cuda_ipc without cuda_copy", "tcp,cuda_ipc", Host{}, Warn, "not cuda_copy", "tcp,cuda_ipc,cuda_copy"},
		{"cuda negated with GPU", "^cuda", hpc, Warn, "leaves out cuda_copy", "-"},
		{"cuda_copy and ud negated with GPU", "^cuda_copy,ud", hpc, Warn, "cuda_copy", "^ud"},
		{"cuda without CUDA", "tcp,cuda", laptop, Warn, "built without CUDA", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := []string{"UCX_TLS=" + c.value}
			found := Lint(env, c.host)
			if worst(found) != c.level {
				t.Fatalf("found %v, want level %v", found, c.level)
			}
			if c.level >= 0 && !slices.ContainsFunc(found, func(f Finding) bool {
				return strings.Contains(f.String(), c.has)
			}) {
				t.Errorf("found %v, want %q", found, c.has)
			}
			want := []string{"UCX_TLS=" + c.want}
			switch c.want {
			case "-":
				want = []string{}
			case "":
				want = env
			}
			if got := Repair(env, found); !slices.Equal(got, want) {
				t.Errorf("repaired to %q, want %q", got, want)
			}
			if again := Lint(want, c.host); worst(again) == Fail {
				t.Errorf("after the repair: %v", again)
			}
		})
	}
}

func TestLintSockaddr(t *testing.T) {
	for _, c := range []struct {
		value string
		host  Host
		level Level
		has   string
		want  string
	}{
		{"rdmacm,tcp,sockcm", laptop, -1, "", ""},
		{"tcp", laptop, -1, "", ""},
		{"tcp,sockcm", laptop, -1, "", ""},
		{"rdmacm", hpc, -1, "", ""},
		{"rdmacm", Host{}, -1, "", ""},
		{"sockcm", laptop, Fail, "sockcm", "tcp"},
		{"sockcm", hpc, Fail, "sockcm", "rdmacm,tcp"},
		{"", laptop, Fail, "names no connection manager", "tcp"},
		{"rdmacm", laptop, Fail, "no RDMA device", "tcp"},
		{"rdmacm,sockcm", laptop, Fail, "no RDMA device", "tcp"},
		{"tpc", laptop, Fail, "did you mean tcp?", "tcp"},
		{"tcp,quantum", laptop, Warn, "no connection manager quantum", "tcp"},
		{"^sockcm", laptop, Fail, "does not negate", "tcp"},
	} {
		env := []string{varSockaddr + "=" + c.value}
		found := Lint(env, c.host)
		if worst(found) != c.level {
			t.Errorf("%q: %v, want level %v", c.value, found, c.level)
			continue
		}
		err := CheckSockaddr(c.value, c.host.RDMA)
		if (err != nil) != (c.level == Fail) && c.host.NetDevices != nil {
			t.Errorf("CheckSockaddr(%q) = %v", c.value, err)
		}
		if c.level < 0 {
			continue
		}
		if !slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.String(), c.has) }) {
			t.Errorf("%q: %v, want %q", c.value, found, c.has)
		}
		if got := Repair(env, found); !slices.Equal(got, []string{varSockaddr + "=" + c.want}) {
			t.Errorf("%q: repaired to %q, want %q", c.value, got, c.want)
		}
	}
	if err := CheckSockaddr("sockcm", false); err == nil || !strings.Contains(err.Error(),
		"export UCX_SOCKADDR_TLS_PRIORITY=tcp") {
		t.Errorf("CheckSockaddr: %v", err)
	}
}

func TestLintNetDevices(t *testing.T) {
	newer := hpc
	newer.Version = "1.22.0"
	for _, c := range []struct {
		value string
		host  Host
		level Level
		has   string
		want  string // "-" for unset
	}{
		{"all", laptop, -1, "", ""},
		{"eth0", laptop, -1, "", ""},
		{"mlx5_0:1,eth0", hpc, -1, "", ""},
		{"^lo", laptop, -1, "", ""},
		{"mlx5_[0-7]:1", newer, -1, "", ""},
		{"nosuch0", Host{}, -1, "", ""},
		{"nosuch0", laptop, Fail, "this host has lo, eth0", "-"},
		{"nosuch0", Host{NetDevices: []string{}}, Fail, "this host has none", "-"},
		{"eth0,eth1", laptop, Warn, "did you mean eth0?", "eth0"},
		{"mlx5_0", hpc, Fail, "did you mean mlx5_0:1?", "mlx5_0:1"},
		{"mlx5_0,mlx5_1", hpc, Fail, "did you mean mlx5_1:1?", "mlx5_0:1,mlx5_1:1"},
		{"mlx5_[0-1]:1", hpc, Fail, "only UCX 1.22", "-"},
		{"mlx5_[5-0]:1", newer, Fail, "no device", "-"},
		{"^docker0", laptop, Warn, "no device docker0", "-"},
		{"", laptop, Fail, "names no device", "-"},
	} {
		env := []string{varNetDevices + "=" + c.value}
		found := Lint(env, c.host)
		if worst(found) != c.level {
			t.Errorf("%q: %v, want level %v", c.value, found, c.level)
			continue
		}
		if c.level < 0 {
			continue
		}
		if !slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.String(), c.has) }) {
			t.Errorf("%q: %v, want %q", c.value, found, c.has)
		}
		want := []string{varNetDevices + "=" + c.want}
		if c.want == "-" {
			want = []string{}
		}
		if got := Repair(env, found); !slices.Equal(got, want) {
			t.Errorf("%q: repaired to %q, want %q", c.value, got, want)
		}
	}
}

func TestReadNetDevices(t *testing.T) {
	sys := fstest.MapFS{
		"class/net/lo/mtu":                        {},
		"class/net/ib0/mtu":                       {},
		"class/net/bonding_masters":               {},
		"class/infiniband/mlx5_0/ports/1/state":   {},
		"class/infiniband/mlx5_1/ports/1/state":   {},
		"class/infiniband/mlx5_1/ports/2/state":   {},
		"class/infiniband/no_ports/node_guid":     {},
		"class/infiniband_verbs/uverbs0/ibdev":    {},
		"class/infiniband/mlx5_0/device/resource": {},
	}
	devices, rdma := ReadNetDevices(sys)
	if want := []string{"ib0", "lo", "mlx5_0:1", "mlx5_1:1", "mlx5_1:2"}; !slices.Equal(devices, want) || !rdma {
		t.Errorf("got %v, %v, want %v, true", devices, rdma, want)
	}
	if devices, rdma := ReadNetDevices(fstest.MapFS{}); len(devices) != 0 || rdma {
		t.Errorf("empty sysfs: %v, %v", devices, rdma)
	}
}

func TestLintOrderAndText(t *testing.T) {
	found := Lint([]string{"UCX_ZZZZZZ=1", "UCX_TLS=sockcm,self", "UCX_AAAAAA=2", "PATH=/bin"}, laptop)
	var vars []string
	for _, f := range found {
		vars = append(vars, f.Var+" "+f.Level.String())
	}
	if want := []string{"UCX_AAAAAA warning", "UCX_TLS error", "UCX_TLS warning",
		"UCX_ZZZZZZ warning"}; !slices.Equal(vars, want) {
		t.Errorf("got %q, want %q", vars, want)
	}
	f := Finding{Level: Note, Var: "UCX_A", Value: "b", Problem: "odd", Fix: "stop"}
	if got := f.String(); got != "note: UCX_A=b: odd; stop" {
		t.Errorf("%q", got)
	}
}

// Whatever the values, a repaired environment has no error left.
func FuzzLint(f *testing.F) {
	f.Add("tcp,sockcm,cuda_copy", "sockcm", "eth0", "UCX_NET_DEVICE", true)
	f.Add("^tcp,\\rc,:aux,^x", "^rdmacm", "mlx5_[0-3]:1", "ucx_", false)
	f.Add("^cuda,tcp,TCP,tcpp", "", "^lo", "UCX_", true)
	f.Fuzz(func(t *testing.T, tls, sockaddr, devices, name string, big bool) {
		host := laptop
		if big {
			host = hpc
		}
		env := []string{"UCX_TLS=" + tls, "UCX_SOCKADDR_TLS_PRIORITY=" + sockaddr, "UCX_NET_DEVICES=" + devices,
			name + "=1"}
		repaired := Repair(env, Lint(env, host))
		for _, f := range Lint(repaired, host) {
			if f.Level == Fail {
				t.Errorf("%q repaired to %q: %v", env, repaired, f)
			}
		}
	})
}
