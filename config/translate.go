package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const ucxSection = "distributed-ucxx."

// Translate returns the UCX options of the settings, without UCX_. It is equivalent to distributed-ucxx, except that
//   - infiniband alone and cuda-copy alone can move GPU memory,
//   - rdmacm without infiniband, net-devices "auto" without it, and nvlink without cuda-copy are
//     errors,
//   - a switch that is off keeps its transport out, whatever else is on or left to UCX.
//
// The warnings name settings without effect.
func (u UCX) Translate() (options map[string]string, warnings []Warning, err error) {
	options = map[string]string{}
	switch {
	case u.RDMACM == On && u.InfiniBand != On:
		return nil, nil, needs(ucxSection+"rdmacm", ucxSection+"infiniband")
	case u.NVLink == On && u.CUDACopy == Off:
		// UCX detects device memory with cuda_copy.
		return nil, nil, needs(ucxSection+"nvlink", ucxSection+"cuda-copy")
	case u.NetDevices == "auto" && u.InfiniBand != On:
		return nil, nil, needs(ucxSection+`environment.net-devices "auto"`, ucxSection+"infiniband")
	}
	if on := u.allowed(); len(on) > 0 {
		options["TLS"] = strings.Join(on, ",")
		options["SOCKADDR_TLS_PRIORITY"] = "tcp"
	}
	switch u.RDMACM {
	case On:
		options["SOCKADDR_TLS_PRIORITY"] = "rdmacm"
	case Off:
		options["SOCKADDR_TLS_PRIORITY"] = "tcp"
	}
	if u.NetDevices != "" && u.NetDevices != "auto" {
		options["NET_DEVICES"] = u.NetDevices
	}
	for _, key := range slices.Sorted(maps.Keys(u.Environment)) {
		name := optionName(key)
		if have, ok := options[name]; ok && have != u.Environment[key] {
			warnings = append(warnings, Warning{Key: ucxSection + "environment." + key,
				Text: ucxSection + "environment." + key + " has no effect: other settings make UCX_" + name + "=" +
					have})
			continue
		}
		options[name] = u.Environment[key]
	}
	if off := u.forbidden(); len(off) > 0 && options["TLS"] == "" {
		var names []string
		for _, s := range off {
			names = append(names, s.transport)
		}
		options["TLS"] = "^" + strings.Join(names, ",")
	}
	return options, warnings, u.keepsOut(options["TLS"], ucxSection+"environment.tls")
}

// allowed returns the transports of the switches that are on; none leaves the choice to UCX.
func (u UCX) allowed() []string {
	if u.TCP != On && u.NVLink != On && u.InfiniBand != On && u.CUDACopy != On {
		return nil
	}
	var tls []string
	if u.InfiniBand == On {
		tls = append(tls, "rc")
	}
	switch {
	case u.TCP != Off:
		tls = append(tls, "tcp")
	case u.InfiniBand != On:
		// Without tcp and InfiniBand, host memory needs another transport, within one host.
		tls = append(tls, "self", "sm")
	}
	if u.CUDACopy == On || u.NVLink == On || u.InfiniBand == On && u.CUDACopy != Off {
		tls = append(tls, "cuda_copy")
	}
	if u.NVLink == On {
		tls = append(tls, "cuda_ipc")
	}
	return tls
}

// transportSwitch is a switch that allows or excludes a transport.
type transportSwitch struct {
	key       string
	state     Switch
	transport string   // as UCX_TLS excludes it
	members   []string // names in UCX_TLS that allow it, in addition to all
}

func (u UCX) transportSwitches() []transportSwitch {
	return []transportSwitch{
		{"tcp", u.TCP, "tcp", []string{"tcp"}},
		{"nvlink", u.NVLink, "cuda_ipc", []string{"cuda_ipc", "cuda"}},
		{"infiniband", u.InfiniBand, "ib", []string{
			"ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "dc", "dc_x", "dc_mlx5", "ud", "ud_v", "ud_x",
			"ud_verbs", "ud_mlx5", "srd", "gga", "gga_mlx5",
		}},
		{"cuda-copy", u.CUDACopy, "cuda_copy", []string{"cuda_copy", "cuda"}},
	}
}

// forbidden returns the switches that are off.
func (u UCX) forbidden() []transportSwitch {
	return slices.DeleteFunc(u.transportSwitches(), func(s transportSwitch) bool { return s.state != Off })
}

// keepsOut checks that a value of UCX_TLS from another source allows no transport that a switch excludes.
func (u UCX) keepsOut(tls, from string) error {
	for _, s := range u.forbidden() {
		if s.allowedBy(tls) {
			return &forbidError{key: ucxSection + s.key, from: from, tls: tls, transport: s.transport}
		}
	}
	return nil
}

// allowedBy reports whether a value of UCX_TLS allows the transport.
func (s transportSwitch) allowedBy(tls string) bool {
	rest, negated := strings.CutPrefix(tls, "^")
	if rest == "" {
		return !negated || tls == "^"
	}
	named := false
	for name := range strings.SplitSeq(rest, ",") {
		// "ud:aux" and the like only help to connect others; \rc is rc without its helpers.
		name, _, helper := strings.Cut(strings.TrimSpace(name), ":")
		name = strings.TrimPrefix(name, `\`)
		switch {
		case helper && !negated:
		case name == "all", name == s.transport, !negated && slices.Contains(s.members, name), negated &&
			name == "cuda" && slices.Contains(s.members, "cuda"):
			named = true
		}
	}
	return named != negated
}

// forbidError is returned for a list of transports with one that a switch excludes.
type forbidError struct{ key, from, tls, transport string }

func (e *forbidError) Error() string {
	return fmt.Sprintf("%s is false, and %s=%s allows %s: remove %s from it, or unset %s", e.key, e.from, e.tls,
		e.transport, e.transport, e.key)
}
