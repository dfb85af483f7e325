package ucxenv

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const varNetDevices = "UCX_NET_DEVICES"

// ReadNetDevices returns the network devices of a host as UCX names them, from its sysfs (os.DirFS("/sys")): interfaces
// ("eth0") for tcp, and ports of RDMA devices ("mlx5_0:1"). rdma reports whether there is one of the latter.
func ReadNetDevices(sys fs.FS) (devices []string, rdma bool) {
	// Missing directories mean no devices; a container without sysfs has none.
	interfaces, _ := fs.ReadDir(sys, "class/net")
	for _, e := range interfaces {
		if e.Name() != "bonding_masters" {
			devices = append(devices, e.Name())
		}
	}
	hcas, _ := fs.ReadDir(sys, "class/infiniband")
	for _, e := range hcas {
		ports, _ := fs.ReadDir(sys, "class/infiniband/"+e.Name()+"/ports")
		for _, p := range ports {
			devices = append(devices, e.Name()+":"+p.Name())
			rdma = true
		}
	}
	return devices, rdma
}

// maxRange bounds the expansion of one range, which comes from the environment.
const maxRange = 1024

// rangesSince is the first UCX that expands ranges in device names.
var rangesSince = version{1, 22}

var rangePattern = regexp.MustCompile(`^([^][]*)\[([0-9]{1,9})-([0-9]{1,9})\]([^][]*)$`)

// expandRange returns the names to which UCX expands "mlx5_[0-3]:1".
func expandRange(item string, loaded version) []string {
	m := rangePattern.FindStringSubmatch(item)
	if m == nil || loaded != (version{}) && loaded.before(rangesSince) {
		return []string{item}
	}
	from, _ := strconv.Atoi(m[2])
	to, _ := strconv.Atoi(m[3])
	if from > to || to-from >= maxRange {
		return []string{item}
	}
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, m[1]+strconv.Itoa(i)+m[4])
	}
	return out
}

func lintNetDevices(value string, h Host) []Finding {
	l := parseList(value)
	if h.NetDevices == nil || len(l.items) == 1 && l.items[0] == "all" && !l.negate {
		return nil
	}
	var found []Finding
	add := func(level Level, problem, fix string) {
		found = append(found, Finding{Level: level, Var: varNetDevices, Value: value, Problem: problem, Fix: fix})
	}
	here := "this host has " + strings.Join(h.NetDevices, ", ")
	if len(h.NetDevices) == 0 {
		here = "this host has none"
	}
	var fixed allowList
	fixed.negate = l.negate
	present := 0
	for _, item := range l.items {
		names := expandRange(item, parseVersion(h.Version))
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(h.NetDevices, n) }) {
			present++
			fixed.add(item)
			continue
		}
		problem, fix := "there is no device "+item, here
		switch port := withPort(item, h.NetDevices); {
		case port != "":
			fix = "did you mean " + port + "? " + here
			fixed.add(port)
		case rangePattern.MatchString(item) && len(names) == 1:
			problem += " (only UCX 1.22 and later know ranges)"
		default:
			if near := nearest(item, h.NetDevices); len(near) > 0 {
				fix = "did you mean " + strings.Join(near, " or ") + "? " + here
			}
		}
		add(Warn, problem, fix)
	}
	if present == 0 && !l.negate {
		add(Fail, "names no device of this host: UCX has no network and cannot connect", "unset it; "+here)
	}
	set := Setting{Name: varNetDevices, Value: fixed.String()}
	if len(fixed.items) == 0 {
		set = Setting{Name: varNetDevices, Unset: true}
	}
	for i := range found {
		found[i].Set = []Setting{set}
	}
	return found
}

// withPort returns the RDMA device that a name without a port means, a common mistake. Other similar names are only
// suggested: another interface is another network.
func withPort(item string, devices []string) string {
	for _, d := range devices {
		if strings.HasPrefix(d, item+":") {
			return d
		}
	}
	return ""
}
