package ucxenv

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Level is the severity of a Finding.
type Level int

const (
	// Note is information for the user; everything works.
	Note Level = iota
	// Warn is a setting that UCX ignores or that disables something the user probably wants.
	Warn
	// Fail is a setting with which UCX does not start, cannot connect, or aborts the process.
	Fail
)

// String returns "note", "warning" or "error".
func (l Level) String() string {
	switch l {
	case Note:
		return "note"
	case Warn:
		return "warning"
	default:
		return "error"
	}
}

// Setting is one environment variable of a repair.
type Setting struct {
	// Name is the variable with its prefix UCX_.
	Name string
	// Value is the new value.
	Value string
	// Unset reports whether to remove the variable; Value is then empty.
	Unset bool
}

// String returns the setting as a shell command.
func (s Setting) String() string {
	if s.Unset {
		return "unset " + s.Name
	}
	return "export " + s.Name + "=" + s.Value
}

// Finding is something wrong with one environment variable.
type Finding struct {
	// Level is the severity.
	Level Level
	// Var is the variable's name as it is in the environment.
	Var string
	// Value is the variable's value.
	Value string
	// Problem describes what is wrong and how UCX reacts.
	Problem string
	// Fix describes what to do.
	Fix string
	// Set are the settings that fix it; all findings on one variable have the same ones. Empty if only the user can
	// know.
	Set []Setting
}

// String returns the finding in one line.
func (f Finding) String() string {
	s := f.Level.String() + ": " + f.Var + "=" + f.Value + ": " + f.Problem
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	return s
}

// Host describes the library and the machine for Lint. The zero value is unknown: findings that need the information
// are left out.
type Host struct {
	// Version is the version of the loaded libucx, for example "1.13.1".
	Version string
	// Options are the names that the loaded libucx supports, with their prefix, as returned by ParseConfig. They add to
	// the built-in list of names.
	Options []string
	// Transports are the transports that the loaded libucx has on this machine
	// ("tcp", "posix", "rc_mlx5", …). Nil means not known.
	Transports []string
	// NetDevices are the network devices as UCX names them ("eth0", "mlx5_0:1").
	// Nil means not known. See ReadNetDevices.
	NetDevices []string
	// RDMA reports whether the machine has an RDMA device. False means that it has none only if Transports or
	// NetDevices are known.
	RDMA bool
	// GPU reports whether device memory will be sent or received.
	GPU bool
}

func (h Host) noRDMA() bool { return !h.RDMA && (h.Transports != nil || h.NetDevices != nil) }

// Lint checks an environment (entries "NAME=value", as returned by os.Environ) and returns the problems of its UCX
// variables, sorted by variable.
func Lint(environ []string, h Host) []Finding {
	env := make(map[string]string)
	for _, e := range environ {
		name, value, ok := strings.Cut(e, "=")
		if ok && strings.HasPrefix(strings.ToUpper(name), prefix) {
			env[name] = value
		}
	}
	var found []Finding
	found = append(found, lintNames(env, h)...)
	if v, ok := env[varTLS]; ok {
		found = append(found, lintTLS(v, h)...)
	}
	if v, ok := env[varSockaddr]; ok {
		found = append(found, lintSockaddr(v, h)...)
	}
	if v, ok := env[varNetDevices]; ok {
		found = append(found, lintNetDevices(v, h)...)
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Var, b.Var), cmp.Compare(b.Level, a.Level))
	})
	return found
}

// Repair returns a copy of environ with the settings of the findings applied.
func Repair(environ []string, found []Finding) []string {
	set := make(map[string]Setting)
	for _, f := range found {
		for _, s := range f.Set {
			set[s.Name] = s
		}
	}
	out := make([]string, 0, len(environ))
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if _, ok := set[name]; !ok {
			out = append(out, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if s := set[name]; !s.Unset {
			out = append(out, name+"="+s.Value)
		}
	}
	return out
}
