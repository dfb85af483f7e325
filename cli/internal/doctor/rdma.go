package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// hcas returns the RDMA devices of the kernel.
func (h *Host) hcas() []string { return h.list("sys/class/infiniband") }

// rdmaTransports are prefixes of UCX transports that use verbs.
var rdmaTransports = []string{"rc", "dc", "ud", "ib", "srd", "gga"}

func hasRDMA(transports []string) bool {
	return slices.ContainsFunc(transports, func(t string) bool {
		return slices.ContainsFunc(rdmaTransports, func(p string) bool {
			return t == p || strings.HasPrefix(t, p+"_") || p == "ib" && strings.HasPrefix(t, p)
		})
	})
}

// checkRDMA checks hardware, device files, port state and the support of UCX.
func checkRDMA(h *Host) []Finding {
	hcas := h.hcas()
	if len(hcas) == 0 {
		return one(Info, "no RDMA device (InfiniBand, RoCE)", "Traffic between machines uses TCP.", "")
	}
	names := strings.Join(hcas, ", ")
	if len(h.glob("dev/infiniband/uverbs*")) == 0 {
		fix := "run `modprobe ib_uverbs`"
		if h.container() != "" {
			fix = "start the container with `--device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1`"
		}
		return one(Warn, "RDMA devices "+names+" exist, but /dev/infiniband is missing", "UCX falls back to TCP.", fix)
	}
	var findings []Finding
	var active []string
	for _, hca := range hcas {
		for _, state := range h.glob("sys/class/infiniband/" + hca + "/ports/*/state") {
			if strings.Contains(h.read(state), "ACTIVE") {
				active = append(active, hca)
				break
			}
		}
	}
	if len(active) == 0 {
		findings = append(findings, Finding{Severity: Warn, Title: "no port of " + names + " is active",
			Detail: "UCX falls back to TCP.", Fix: "check cable and subnet manager (`ibstat`), or bring the " +
				"interface up (`ip link set … up`)"})
	}
	if h.UCX != nil && !h.UCX.RDMA && !hasRDMA(h.UCX.Transports) {
		findings = append(findings, Finding{Severity: Warn, Title: "UCX has no " +
			"RDMA transports, but there is RDMA hardware",
			Detail: h.UCX.Path + " has no InfiniBand module. libucx of PyPI is built without verbs.",
			Fix: h.install(ucxPackages) + " (or use HPC-X or conda), and set MILLSTREAM_UCX_LIBRARY to its " +
				libucp})
	}
	if findings == nil {
		return one(OK, fmt.Sprintf("RDMA devices %s, active: %s", names, strings.Join(active, ", ")), "", "")
	}
	return findings
}

// rdmaLibraries are the libraries that UCX builds with RDMA load, with their packages.
var rdmaLibraries = []struct {
	soname string
	use    string
	pkg    packages
}{
	{"libibverbs.so.1", "RDMA verbs", packages{"libibverbs1 ibverbs-providers", "libibverbs", "libibverbs1"}},
	{"librdmacm.so.1", "RDMA connection manager", packages{"librdmacm1", "librdmacm", "librdmacm1"}},
	{"libnuma.so.1", "NUMA placement", packages{"libnuma1", "numactl-libs", "libnuma1"}},
}

// checkRDMALibraries names the packages of missing libraries. Without RDMA hardware they are needed only if the UCX
// library cannot be loaded without them.
func checkRDMALibraries(h *Host) []Finding {
	var missing []string
	var wanted []packages
	for _, lib := range rdmaLibraries {
		if _, ok := h.findLibrary(lib.soname); !ok {
			missing = append(missing, fmt.Sprintf("%s (%s)", lib.soname, lib.use))
			wanted = append(wanted, lib.pkg)
		}
	}
	if missing == nil {
		return one(OK, "libibverbs, librdmacm and libnuma are installed", "", "")
	}
	title := "missing: " + strings.Join(missing, ", ")
	fix := h.install(wanted...)
	switch {
	case h.UCX == nil && len(h.ucxLibraries()) > 0:
		return one(Fail, title, "A UCX library built with RDMA support cannot be loaded without them.", fix)
	case len(h.hcas()) > 0:
		return one(Warn, title, "UCX cannot use the RDMA devices of this machine.", fix)
	default:
		return one(Info, title, "Needed only by UCX builds with RDMA support (system, conda, HPC-X).", fix)
	}
}
