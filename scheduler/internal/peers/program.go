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

// Program is what a Millstream peer says about the program that it runs. Everything in it is the peer's word, for
// messages alone.
type Program struct {
	Registry   string            // task.Hash
	build      string            // task.BuildText
	Signatures map[string]string // of functions, by their names; short hashes
}

// MaxFunctions bounds how many functions of a peer are remembered.
const MaxFunctions = 1 << 14

// ProgramOf reads what a peer says about its program; nil when it says nothing.
func ProgramOf(m msgpack.Map) *Program {
	var in struct {
		Registry, Build       string
		Functions, Signatures []string
	}
	if err := rpc.Assign(m, &in); err != nil || in.Registry == "" || len(in.Registry) > 128 {
		return nil
	}
	p := &Program{Registry: strings.Clone(in.Registry), build: clipped(in.Build, 200), Signatures: map[string]string{}}
	for i, name := range in.Functions[:min(len(in.Functions), MaxFunctions)] {
		if len(name) > task.MaxName {
			continue
		}
		sum := ""
		if i < len(in.Signatures) {
			sum = in.Signatures[i]
		}
		p.Signatures[strings.Clone(name)] = clipped(sum, 16)
	}
	return p
}

// Program returns the worker's program; nil for a worker that is not Millstream's.
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

// Difference says what the functions of a worker's program lack for those of a client's.
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

// namesOf lists some names, in their order.
func namesOf(what string, names []string) string {
	slices.Sort(names)
	const most = 3
	if len(names) > 1 {
		what += "s"
	}
	for i := range names {
		names[i] = clipped(names[i], 100)
	}
	text := what + " " + strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// Stale says which workers have a client's functions in another build, so that they do not run its tasks; "" when
// none has. It runs in the loop.
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

// clipped is a copy of a text with an end.
func clipped(text string, most int) string { return strings.Clone(text[:min(len(text), most)]) }
