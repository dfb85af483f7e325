package ucxenv

import (
	"fmt"
	"slices"
	"strings"
)

const varSockaddr = "UCX_SOCKADDR_TLS_PRIORITY"

// CheckSockaddr returns an error if a value of UCX_SOCKADDR_TLS_PRIORITY leaves no connection manager that works on
// this host. It must be called before a listener or an endpoint by socket address is created: otherwise UCX fails an
// assertion or dereferences a nil pointer and aborts the process (seen with 1.13.1 and 1.21.0). rdma reports whether
// the host has an RDMA device.
func CheckSockaddr(value string, rdma bool) error {
	for _, f := range lintSockaddr(value, Host{RDMA: rdma, NetDevices: []string{}}) {
		if f.Level == Fail {
			return fmt.Errorf("%s=%s: %s; %s", f.Var, f.Value, f.Problem, f.Fix)
		}
	}
	return nil
}

func lintSockaddr(value string, h Host) []Finding {
	var found []Finding
	add := func(level Level, problem, fix string) {
		found = append(found, Finding{Level: level, Var: varSockaddr, Value: value, Problem: problem, Fix: fix})
	}
	var works, fixed []string
	for _, item := range parseList(value).items {
		switch {
		case item == retired:
			// Harmless next to others: UCX's own default still contains it.
		case item == "tcp" || item == "rdmacm":
			fixed = append(fixed, item)
			if item == "tcp" || !h.noRDMA() {
				works = append(works, item)
			}
		default:
			fix := "take tcp or rdmacm"
			if near := nearest(strings.ToLower(item), []string{"tcp", "rdmacm"}); len(near) > 0 {
				fix = "did you mean " + near[0] + "?"
				fixed = append(fixed, near[0])
			}
			add(Warn, "there is no connection manager "+item, fix)
		}
	}
	if strings.HasPrefix(strings.TrimSpace(value), "^") {
		// The list is ordered, so UCX reads ^ as a part of the first name.
		works, fixed = nil, nil
		add(Warn, "^ does not negate this list", "name those to use")
	}
	if len(works) == 0 {
		why := "names no connection manager"
		switch {
		case len(fixed) > 0 && h.noRDMA() && !slices.Contains(fixed, "tcp"):
			why = "names only rdmacm, and this host has no RDMA device"
		case strings.Contains(value, retired):
			why = "names only sockcm, which is gone since UCX 1.11"
		}
		add(Fail, why+": listeners cannot be made, and connecting by socket address ends the process inside UCX",
			"unset it or take tcp, or rdmacm,tcp on a host with RDMA")
		fixed = []string{"tcp"}
		if h.RDMA {
			fixed = []string{"rdmacm", "tcp"}
		}
	}
	set := Setting{Name: varSockaddr, Value: strings.Join(slices.Compact(fixed), ",")}
	for i := range found {
		found[i].Set = []Setting{set}
		found[i].Fix += "; " + set.String()
	}
	return found
}
