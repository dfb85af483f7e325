package ucxenv

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Level says how bad a Finding is.
type Level int

const (
	// Note is something that the user may want to know; everything works.
	Note Level = iota
	// Warn is a setting that UCX ignores or that takes away what the user probably
	// wants.
	Warn
	// Fail is a setting with which UCX refuses to start, cannot connect, or ends
	// the process.
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
	// Unset tells to remove the variable; Value is then empty.
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
	// Level says how bad it is.
	Level Level
	// Var is the variable's name as it is in the environment.
	Var string
	// Value is the variable's value.
	Value string
	// Problem says what is wrong and what UCX does with it.
	Problem string
	// Fix says what to do, in words.
	Fix string
	// Set are the settings that repair it; all findings on one variable carry the
	// same ones. Empty where only the user can know.
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

// Host is what Lint may know about the library and the machine. The zero value
// knows nothing: findings that need the knowledge are then left out.
type Host struct {
	// Version is the version of the loaded libucx, for example "1.13.1".
	Version string
	// Options are the names that the loaded libucx knows, with their prefix, as
	// ParseConfig gives them. They add to the built-in list of names.
	Options []string
	// Transports are the transports that the loaded libucx has on this machine
	// ("tcp", "posix", "rc_mlx5", …). Nil means not known.
	Transports []string
	// NetDevices are the network devices as UCX names them ("eth0", "mlx5_0:1").
	// Nil means not known. See ReadNetDevices.
	NetDevices []string
	// RDMA tells that the machine has an RDMA device. False means that it has none
	// only where Transports or NetDevices are known.
	RDMA bool
	// GPU tells that device memory will be sent or received.
	GPU bool
}

func (h Host) noRDMA() bool { return !h.RDMA && (h.Transports != nil || h.NetDevices != nil) }

// Lint looks through an environment (entries "NAME=value", as os.Environ returns
// them) and returns what is wrong with its UCX variables, sorted by variable.
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
