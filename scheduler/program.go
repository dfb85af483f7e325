package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/task"
)

// program is what a Millstream peer says about the program that it runs. Everything in it is the peer's word, for
// messages alone.
type program struct {
	registry   string            // task.Hash
	build      string            // task.BuildText
	signatures map[string]string // of functions, by their names; short hashes
}

// maxFunctions bounds how many functions of a peer are remembered.
const maxFunctions = 1 << 14

// programOf reads what a peer says about its program; nil when it says nothing.
func programOf(m msgpack.Map) *program {
	registry := m.GetString("registry")
	if registry == "" || len(registry) > 128 {
		return nil
	}
	p := &program{registry: strings.Clone(registry), build: clipped(m.GetString("build"), 200), signatures: map[string]string{}}
	names, _ := m.Get("functions")
	list, _ := names.([]any)
	sums, _ := m.Get("signatures")
	hashes, _ := sums.([]any)
	for i, v := range list[:min(len(list), maxFunctions)] {
		name, _ := v.(string)
		if len(name) > task.MaxName {
			continue
		}
		sum := ""
		if i < len(hashes) {
			sum, _ = hashes[i].(string)
		}
		p.signatures[strings.Clone(name)] = clipped(sum, 16)
	}
	return p
}

// program returns the worker's program; nil for a worker that is not Millstream's.
func (w *worker) program() *program {
	ours, _ := w.extra.Get("millstream")
	m, _ := ours.(msgpack.Map)
	return programOf(m)
}

func (p *program) functions() string {
	functions, _ := task.SplitHash(p.registry)
	return functions
}

// buildText describes a program in messages.
func (p *program) buildText() string {
	if p.build != "" {
		return p.build
	}
	_, id := task.SplitHash(p.registry)
	return "build " + val.OrText(id, "unknown")
}

// difference says what the functions of a worker's program lack for those of a client's.
func (p *program) difference(client *program) string {
	var missing, other, extra []string
	for name, sum := range client.signatures {
		switch have, ok := p.signatures[name]; {
		case !ok:
			missing = append(missing, name)
		case have != sum:
			other = append(other, name)
		}
	}
	for name := range p.signatures {
		if _, ok := client.signatures[name]; !ok {
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

// staleWorkers says which workers have a client's functions in another build, so that they do not run its tasks; "" when
// none has. It runs in the loop.
func (s *Scheduler) staleWorkers(p *program) string {
	if p == nil || s.cfg.AnyBuild || p.registry == p.functions() {
		return ""
	}
	var stale []string
	var build string
	for _, w := range s.workers {
		if v := w.program(); v != nil && v.functions() == p.functions() && v.registry != p.registry {
			stale = append(stale, w.address)
			if w.address == slices.Min(stale) {
				build = v.buildText()
			}
		}
	}
	if len(stale) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: another build of this program, %s, than the client's, %s: such workers do not run its tasks; "+
		"restart them with the client's program, or allow other builds (millstream.any-build)", namesOf("stale worker", stale), build, p.buildText())
}

// clipped is a copy of a text with an end.
func clipped(text string, most int) string { return strings.Clone(text[:min(len(text), most)]) }
