package main

import (
	"fmt"
	"slices"
	"strings"

	scheduler "go.millstream.dev/internal/engine/scheduler/state"
	worker "go.millstream.dev/internal/engine/worker/state"
)

// machine is the description of a state machine.
type machine struct {
	title, source, intro string
	// wanted is the title of the column of recommendations, about a paragraph on the steps.
	wanted, about string
	// setting is the setting that enables the check of the rules.
	setting string
	steps   []step
	moves   []move
	rules   [][2]string // name and statement
}

type step struct {
	from, wanted, name string
	to                 []string
}

type move struct{ from, to, name string }

// pages returns the generated files by name.
func pages() map[string]string {
	return map[string]string{
		"docs/protocol/scheduler-states.md": schedulerMachine().page(),
		"docs/protocol/worker-states.md":    workerMachine().page(),
	}
}

func schedulerMachine() *machine {
	m := &machine{
		title:  "States of tasks on the scheduler",
		source: "internal/engine/scheduler/state",
		intro: `The states are those of Dask's scheduler. A task is computed and kept as long as a client wants it
or a task in play needs it.`,
		wanted: "recommended",
		about: `Events and transitions recommend transitions of tasks. This is what happens to a task when the
recommendation comes up; it stays as it is if the reason is gone by then, and where the table has no row.`,
		setting: "distributed.scheduler.validate",
	}
	for _, s := range scheduler.Steps() {
		m.steps = append(m.steps, step{s.From.String(), s.Recommended, s.Name, names(s.To)})
	}
	for _, v := range scheduler.Moves() {
		m.moves = append(m.moves, move{v.From.String(), v.To.String(), v.Name})
	}
	for _, r := range scheduler.Rules() {
		m.rules = append(m.rules, [2]string{r.Name, r.Statement})
	}
	return m
}

func workerMachine() *machine {
	m := &machine{
		title:  "States of tasks on a worker",
		source: "internal/engine/worker/state",
		intro: `The states are those of Dask's workers. Runs cannot be stopped and transfers carry several keys: a
task that is not wanted any more is cancelled until its run or transfer has ended, and resumed if it is then wanted in
another way.`,
		wanted: "wanted",
		about: `Events and transitions recommend the state that a task is to go to. This is what happens; where
the table has no row, the task is released first and goes on from there.`,
		setting: "distributed.worker.validate",
	}
	for _, s := range worker.Steps() {
		m.steps = append(m.steps, step{s.From.String(), s.Wanted.String(), s.Name, names(s.To)})
	}
	for _, v := range worker.Moves() {
		m.moves = append(m.moves, move{v.From.String(), v.To.String(), v.Name})
	}
	for _, r := range worker.Rules() {
		m.rules = append(m.rules, [2]string{r.Name, r.Statement})
	}
	return m
}

func names[S fmt.Stringer](states []S) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = s.String()
	}
	return out
}

func (m *machine) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- Written by `go generate ./internal/tools/states` from %s. -->\n\n%s\n\n", m.title,
		m.source, m.intro)
	b.WriteString("```mermaid\n" + m.diagram() + "```\n\n")
	fmt.Fprintf(&b, "## Recommended transitions\n\n%s\n\n| from | %s | what happens | to |\n|---|---|---|---|\n",
		m.about, m.wanted)
	for _, s := range m.steps {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.from, s.wanted, s.name, strings.Join(s.to, ", "))
	}
	b.WriteString("\n## Transitions by events\n\nEvents change the state of a task directly in these cases.\n\n" +
		"| from | to | when |\n|---|---|---|\n")
	for _, v := range m.moves {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.from, v.to, v.name)
	}
	fmt.Fprintf(&b,
		"\n## Rules\n\nThese hold after every event. With `%s` they are checked after each, and the report of one\n"+
			"that is broken starts with its name.\n\n| rule | statement |\n|---|---|\n", m.setting)
	for _, r := range m.rules {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r[0], r[1])
	}
	return b.String()
}

// diagram returns the Mermaid diagram of all state changes, with one edge for each pair of states.
func (m *machine) diagram() string {
	var edges [][2]string
	labels := map[[2]string][]string{}
	add := func(from, to, name string) {
		e := [2]string{from, to}
		if labels[e] == nil {
			edges = append(edges, e)
		}
		if !slices.Contains(labels[e], name) {
			labels[e] = append(labels[e], name)
		}
	}
	for _, s := range m.steps {
		for _, to := range s.to {
			if to != s.from {
				add(s.from, to, s.name)
			}
		}
	}
	for _, v := range m.moves {
		add(v.from, v.to, v.name)
	}
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, e := range edges {
		for _, st := range e {
			if id := ident(st); id != st && !strings.Contains(b.String(), " as "+id+"\n") {
				fmt.Fprintf(&b, "    state %q as %s\n", st, id)
			}
		}
	}
	fmt.Fprintf(&b, "    [*] --> %s\n", ident(m.steps[0].from))
	for _, e := range edges {
		// A colon ends the label.
		label := strings.ReplaceAll(strings.Join(labels[e], " / "), ":", ",")
		fmt.Fprintf(&b, "    %s --> %s : %s\n", ident(e[0]), ident(e[1]), label)
	}
	b.WriteString("    forgotten --> [*]\n")
	return b.String()
}

// ident returns the name of a state for Mermaid.
func ident(state string) string { return strings.ReplaceAll(state, "-", "_") }
