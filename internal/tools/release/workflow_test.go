package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestWorkflow checks that the jobs of hosted runners call targets of the Makefile that exist, and that each job has a
// limit of time.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../../../.github/workflows/ci.yml")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Limit int `yaml:"timeout-minutes"`
			Steps []struct{ Run, Uses string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	called := regexp.MustCompile(`\bmake ([a-z0-9-]+)`)
	targets := 0
	for name, job := range workflow.Jobs {
		if job.Limit == 0 || len(job.Steps) == 0 {
			t.Errorf("job %s: limit of %d minutes, %d steps", name, job.Limit, len(job.Steps))
		}
		for _, step := range job.Steps {
			for _, m := range called.FindAllStringSubmatch(step.Run, -1) {
				targets++
				if !bytes.Contains(makefile, []byte("\n"+m[1]+":")) {
					t.Errorf("job %s: the Makefile has no target %s", name, m[1])
				}
			}
			if step.Uses != "" && !strings.Contains(step.Uses, "@v") {
				t.Errorf("job %s: %s has no version", name, step.Uses)
			}
		}
	}
	if targets < 5 {
		t.Errorf("the workflow calls %d targets of the Makefile, want at least 5", targets)
	}
}
