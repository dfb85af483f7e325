package peers

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// Program describes the program of a Millstream peer. The peer has reported all of it; it is used in messages only.
type Program struct {
	Registry   string            // task.Hash
	build      string            // task.BuildText
	Signatures map[string]string // short hashes of signatures by name of the function
}

// MaxFunctions bounds the number of functions that are kept of a peer.
const MaxFunctions = 1 << 14

// ProgramOf reads the program that a peer reports; nil if it reports none.
func ProgramOf(m msgpack.Map) *Program {
	var in struct {
		Registry, Build       string
		Functions, Signatures []string
	}
	if err := rpc.Assign(m, &in); err != nil || in.Registry == "" || len(in.Registry) > 128 {
		return nil
	}
	p := &Program{Registry: strings.Clone(in.Registry), build: clip(in.Build, 200), Signatures: map[string]string{}}
	for i, name := range in.Functions[:min(len(in.Functions), MaxFunctions)] {
		if len(name) > task.MaxName {
			continue
		}
		sum := ""
		if i < len(in.Signatures) {
			sum = in.Signatures[i]
		}
		p.Signatures[strings.Clone(name)] = clip(sum, 16)
	}
	return p
}

// Program returns the worker's program; nil for workers of Dask.
func (w *Worker) Program() *Program {
	ours, _ := w.Extra.Get("millstream")
	m, _ := ours.(msgpack.Map)
	return ProgramOf(m)
}

func (p *Program) Functions() string {
	functions, _ := task.SplitHash(p.Registry)
	return functions
}

// BuildText describes a program in messages.
func (p *Program) BuildText() string {
	if p.build != "" {
		return p.build
	}
	_, id := task.SplitHash(p.Registry)
	return "build " + val.OrText(id, "unknown")
}

// Difference describes which functions of a client's program the worker's program lacks.
func (p *Program) Difference(client *Program) string {
	var missing, other, extra []string
	for name, sum := range client.Signatures {
		switch have, ok := p.Signatures[name]; {
		case !ok:
			missing = append(missing, name)
		case have != sum:
			other = append(other, name)
		}
	}
	for name := range p.Signatures {
		if _, ok := client.Signatures[name]; !ok {
			extra = append(extra, name)
		}
	}
	switch {
	case len(missing) > 0:
		return "missing " + namesOf("function", missing)
	case len(other) > 0:
		return "another signature of " + namesOf("function", other)
	case len(extra) > 0:
		return namesOf("function", extra) + " that the client does not have"
	}
	return "other functions"
}

// namesOf lists some names, in order.
func namesOf(what string, names []string) string {
	slices.Sort(names)
	const most = 3
	if len(names) > 1 {
		what += "s"
	}
	for i := range names {
		names[i] = clip(names[i], 100)
	}
	text := what + " " + strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// Stale describes the workers that have a client's functions in another build, and so do not run its tasks; "" if there
// are none. It runs in the loop.
func (s *Workers) Stale(p *Program) string {
	if p == nil || p.Registry == p.Functions() {
		return ""
	}
	var stale []string
	var build string
	for _, w := range s.ByAddress {
		if v := w.Program(); v != nil && v.Functions() == p.Functions() && v.Registry != p.Registry {
			stale = append(stale, w.Address)
			if w.Address == slices.Min(stale) {
				build = v.BuildText()
			}
		}
	}
	if len(stale) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: another build of this program, %s, than the client's, %s: such workers do not run its "+
		"tasks; "+
		"restart them with the client's program, or allow other builds (millstream.any-build)",
		namesOf("stale worker", stale), build, p.BuildText())
}

// clip returns a copy of a text of at most most bytes.
func clip(text string, most int) string { return strings.Clone(text[:min(len(text), most)]) }
