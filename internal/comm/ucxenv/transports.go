package ucxenv

import (
	"maps"
	"slices"
	"strings"
)

const varTLS = "UCX_TLS"

// retired is the transport that UCX-Py's first guide recommended. UCX 1.11 removed it; tcp or rdmacm set up connections
// without it.
const retired = "sockcm"

// transports are the names that UCX_TLS accepts, with the aliases of several of them.
var transports = map[string][]string{
	"self": {"self"}, "tcp": {"tcp"},
	"posix": {"posix"}, "sysv": {"sysv"}, "xpmem": {"xpmem"}, "knem": {"knem"}, "cma": {"cma"},
	"mm":       {"posix", "sysv", "xpmem"},
	"sm":       {"posix", "sysv", "xpmem", "knem", "cma"},
	"shm":      {"posix", "sysv", "xpmem", "knem", "cma"},
	"rc_verbs": {"rc_verbs"}, "rc_mlx5": {"rc_mlx5"}, "ud_verbs": {"ud_verbs"}, "ud_mlx5": {"ud_mlx5"},
	"dc_mlx5": {"dc_mlx5"}, "gga_mlx5": {"gga_mlx5"}, "srd": {"srd"}, "rc_gda": {"rc_gda"},
	"ib":   {"rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5", "gga_mlx5", "srd", "rc_gda"},
	"rc":   {"rc_mlx5", "rc_verbs"},
	"rc_v": {"rc_verbs"}, "rc_x": {"rc_mlx5"},
	"ud":   {"ud_mlx5", "ud_verbs"},
	"ud_v": {"ud_verbs"}, "ud_x": {"ud_mlx5"},
	"dc": {"dc_mlx5"}, "dc_x": {"dc_mlx5"}, "gga": {"gga_mlx5"},
	"ugni_smsg": {"ugni_smsg"}, "ugni_udt": {"ugni_udt"}, "ugni_rdma": {"ugni_rdma"},
	"ugni":      {"ugni_smsg", "ugni_udt", "ugni_rdma"},
	"cuda_copy": {"cuda_copy"}, "cuda_ipc": {"cuda_ipc"}, "gdr_copy": {"gdr_copy"},
	"cuda":      {"cuda_copy", "cuda_ipc", "gdr_copy"},
	"rocm_copy": {"rocm_copy"}, "rocm_ipc": {"rocm_ipc"}, "rocm_gdr": {"rocm_gdr"},
	"rocm":    {"rocm_copy", "rocm_ipc", "rocm_gdr"},
	"ze_copy": {"ze_copy"}, "ze_ipc": {"ze_ipc"}, "ze_gdr": {"ze_gdr"},
	"ze":        {"ze_copy", "ze_ipc", "ze_gdr"},
	"gaudi_gdr": {"gaudi_gdr"}, "gaudi": {"gaudi_gdr"},
}

// rdmaTransports are those that need an RDMA device. GGA and GDA only copy within a host or from a kernel and cannot
// connect on their own.
var rdmaTransports = []string{"rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5", "srd"}

// networkTransports reach another host.
var networkTransports = append([]string{"tcp", "ugni_smsg", "ugni_udt", "ugni_rdma"}, rdmaTransports...)

// processTransports are the transports that reach another process.
var processTransports = append([]string{"posix", "sysv", "xpmem"}, networkTransports...)

// tlsLint is the state of lintTLS for one value.
type tlsLint struct {
	value string
	host  Host
	list  allowList
	fixed allowList // what the user may have meant: the repair
	found []Finding
}

func lintTLS(value string, h Host) []Finding {
	t := &tlsLint{value: value, host: h, list: parseList(value)}
	t.fixed.negate = t.list.negate
	switch {
	case len(t.list.items) == 0:
		t.add(Fail, "names no transport, and UCX refuses to start", "unset it: UCX then takes the fastest transport "+
			"that both sides have")
		t.fixed = allowList{}
	case slices.Contains(t.list.items, "all"):
		t.all()
	default:
		t.items()
		t.reach()
		t.device()
	}
	set := Setting{Name: varTLS, Value: t.fixed.String()}
	if len(t.fixed.items) == 0 {
		set = Setting{Name: varTLS, Unset: true}
	}
	for i := range t.found {
		// A transport that is only missing here stays in the value, so there is nothing to set.
		if set.Unset || set.Value != t.list.String() {
			t.found[i].Set = []Setting{set}
			t.found[i].Fix += "; " + set.String()
		}
	}
	return t.found
}

func (t *tlsLint) add(level Level, problem, fix string) {
	t.found = append(t.found, Finding{Level: level, Var: varTLS, Value: t.value, Problem: problem, Fix: fix})
}

// all handles the word that must be the only item.
func (t *tlsLint) all() {
	switch {
	case t.list.negate:
		t.add(Warn, "^ takes away a transport called \"all\", which is none", "unset it, or name the transports "+
			"to leave out")
		t.fixed = allowList{}
	case len(t.list.items) > 1:
		t.add(Fail, "\"all\" next to other names is invalid, and UCX refuses to start", "say all alone or unset it")
		t.fixed = allowList{items: []string{"all"}}
	default:
		t.fixed = t.list
	}
}

// items checks each name and builds the corrected list.
func (t *tlsLint) items() {
	for _, item := range t.list.items {
		// A leading backslash selects the transport and not the alias of that name, ":aux" a transport that only sets
		// up connections.
		name, _ := strings.CutPrefix(item, `\`)
		name, _, _ = strings.Cut(name, ":")
		switch lower := strings.ToLower(name); {
		case name == retired:
			t.add(Warn, "sockcm is gone since UCX 1.11; UCX warns and goes on without it",
				"leave it out: tcp and rdmacm set up connections without being named here")
		case transports[name] != nil:
			t.fixed.add(item)
			t.available(name)
		case strings.HasPrefix(name, "^"):
			t.add(Warn, "^ in front of "+name[1:]+" is read as a part of its name; it negates only at the start, and "+
				"then the whole list",
				"say either what to use or, after one ^, what to leave out")
		case transports[lower] != nil:
			t.add(Warn, "UCX has no transport "+name+"; names are in lower case", "say "+lower)
			t.fixed.add(lower)
		default:
			fix := "leave it out"
			if near := nearest(lower, slices.Sorted(maps.Keys(transports))); len(near) > 0 {
				fix = "did you mean " + strings.Join(near, " or ") + "?"
				if len(near) == 1 {
					t.fixed.add(near[0])
				}
			}
			t.add(Warn, "UCX has no transport "+name+" and ignores it", fix)
		}
	}
}

// available reports a transport that exists but not on this host.
func (t *tlsLint) available(name string) {
	if t.host.Transports == nil || t.list.negate || overlap(transports[name], t.host.Transports) {
		return
	}
	problem, fix := "transport "+name+" is not available here", "leave it out, or load a libucx that has it"
	switch {
	case overlap(transports[name], transports["cuda"]):
		problem += ": there is no GPU driver or libucx is built without CUDA"
	case overlap(transports[name], transports["ib"]):
		problem += ": there is no RDMA device or libucx is built without verbs (PyPI's libucx is)"
	}
	t.add(Warn, problem, fix)
}

// allowed returns the transports that a list lets UCX use.
func allowed(l allowList) []string {
	named := make(map[string]bool)
	for _, item := range l.items {
		item, _ = strings.CutPrefix(item, `\`)
		if item, aux, _ := strings.Cut(item, ":"); aux == "" {
			for _, m := range transports[item] {
				named[m] = true
			}
		}
	}
	var out []string
	for name, members := range transports {
		if len(members) == 1 && members[0] == name && named[name] != l.negate {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Allows reports whether a value of UCX_TLS lets UCX use a transport; "" lets it use all.
func Allows(value, transport string) bool {
	l := parseList(value)
	return len(l.items) == 0 || !l.negate && slices.Contains(l.items, "all") ||
		slices.Contains(allowed(l), transport)
}

// usable removes names that this host is known not to have.
func (t *tlsLint) usable(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		if slices.Contains(rdmaTransports, n) && t.host.noRDMA() {
			return true
		}
		return t.host.Transports != nil && !slices.Contains(t.host.Transports, n)
	})
}

// reach checks that other processes and hosts can be reached at all, with the names as UCX reads them now.
func (t *tlsLint) reach() {
	now := t.usable(allowed(t.list))
	switch {
	case overlap(now, networkTransports):
		if !overlap(t.usable(allowed(t.fixed)), networkTransports) {
			t.network() // the repair of another finding must not take it away
		}
		return
	case overlap(now, processTransports):
		t.add(Warn, "allows no network transport that this host has: endpoints by socket address cannot be made, and "+
			"other hosts not reached",
			"allow tcp in addition to the others")
	case slices.Contains(now, "self"):
		t.add(Fail, "allows only the loop-back within one process: no other process can be reached",
			"allow tcp and sm, or unset it")
	default:
		t.add(Fail, "allows no transport that reaches anything: UCX refuses to start or to connect",
			"allow a network transport, or unset it")
	}
	t.network()
}

// network adds a network transport to the fix: the fast one first, if there is an RDMA device, and tcp, which connects
// everything else.
func (t *tlsLint) network() {
	if t.fixed.negate {
		t.fixed.items = slices.DeleteFunc(t.fixed.items, func(item string) bool {
			item, _ = strings.CutPrefix(item, `\`)
			return overlap(transports[item], networkTransports)
		})
		return
	}
	add := allowList{items: []string{"tcp"}}
	if t.host.RDMA {
		add.items = []string{"rc", "tcp"}
	}
	if len(t.fixed.items) == 1 && t.fixed.items[0] == "self" {
		add.items = append(add.items, "sm")
	}
	for _, item := range t.fixed.items {
		add.add(item)
	}
	t.fixed = add
}

// device checks that GPU memory can be moved.
func (t *tlsLint) device() {
	if t.list.negate && !t.host.GPU {
		return
	}
	now := allowed(t.list)
	if slices.Contains(now, "cuda_copy") {
		return
	}
	switch {
	case slices.Contains(now, "cuda_ipc") || slices.Contains(now, "gdr_copy"):
		t.add(Warn, "allows cuda_ipc or gdr_copy but not cuda_copy, without which UCX does not recognize GPU memory",
			"add cuda_copy")
	case t.host.GPU:
		t.add(Warn, "leaves out cuda_copy: GPU memory cannot be sent or received", "add cuda")
	default:
		return
	}
	if !t.fixed.negate {
		t.fixed.add("cuda_copy")
		if t.host.GPU {
			t.fixed.add("cuda_ipc")
		}
		return
	}
	t.fixed.items = slices.DeleteFunc(t.fixed.items, func(item string) bool {
		item, _ = strings.CutPrefix(item, `\`)
		return overlap(transports[item], []string{"cuda_copy"})
	})
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
