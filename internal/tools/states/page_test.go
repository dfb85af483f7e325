package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	scheduler "go.millstream.dev/internal/engine/scheduler/state"
	worker "go.millstream.dev/internal/engine/worker/state"
)

// TestPagesAreCurrent: the pages in the tree are those of the tables.
func TestPagesAreCurrent(t *testing.T) {
	for name, want := range pages() {
		got, err := os.ReadFile(filepath.Join("../../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is stale: go generate ./internal/tools/states", name)
		}
	}
}

// TestDiagram: a small machine, with a state that needs an alias, two reasons for one edge and a colon.
func TestDiagram(t *testing.T) {
	m := &machine{
		steps: []step{
			{"released", "long-running", "run: now", []string{"long-running", "released"}},
			{"long-running", "forgotten", "end", []string{"forgotten"}},
		},
		moves: []move{{"released", "long-running", "steal"}, {"released", "long-running", "run: now"}},
	}
	want := `stateDiagram-v2
    state "long-running" as long_running
    [*] --> released
    released --> long_running : run, now / steal
    long_running --> forgotten : end
    forgotten --> [*]
`
	if got := m.diagram(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPagesAreWhole: each page has every state, every row and every rule of its machine.
func TestPagesAreWhole(t *testing.T) {
	all := pages()
	s, w := all["docs/protocol/scheduler-states.md"], all["docs/protocol/worker-states.md"]
	for _, st := range scheduler.TaskStates() {
		if !strings.Contains(s, "\n| "+st.String()+" | ") {
			t.Errorf("the scheduler's page lacks %s", st)
		}
	}
	for _, st := range worker.TaskStates() {
		if !strings.Contains(w, "\n| "+st.String()+" | ") {
			t.Errorf("the worker's page lacks %s", st)
		}
	}
	for _, r := range scheduler.Rules() {
		if !strings.Contains(s, "| `"+r.Name+"` | "+r.Statement+" |") {
			t.Errorf("the scheduler's page lacks the rule %s", r.Name)
		}
	}
	for _, r := range worker.Rules() {
		if !strings.Contains(w, "| `"+r.Name+"` | "+r.Statement+" |") {
			t.Errorf("the worker's page lacks the rule %s", r.Name)
		}
	}
	edge := regexp.MustCompile(`^    (\w+|\[\*\]) --> (\w+|\[\*\])( : [^:]+)?$`)
	for name, text := range all {
		_, rest, _ := strings.Cut(text, "stateDiagram-v2\n")
		diagram, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatalf("%s has no diagram", name)
		}
		for line := range strings.Lines(diagram) {
			if line = strings.TrimRight(line, "\n"); !edge.MatchString(line) && !strings.HasPrefix(line, "    state ") {
				t.Errorf("%s: %q is no line of a diagram", name, line)
			}
		}
	}
}
