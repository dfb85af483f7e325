package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestConda checks that the recipe has the version and the dependencies of the Python package, and builds all programs.
func TestConda(t *testing.T) {
	root := os.DirFS("../../..")
	text, err := os.ReadFile("../../../deploy/conda/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var recipe struct {
		Package      struct{ Name, Version string }
		Build        struct{ Script []string }
		Requirements struct{ Run []string }
	}
	if err := yaml.Unmarshal(text, &recipe); err != nil {
		t.Fatal(err)
	}
	number, err := pythonVersion(root)
	if err != nil {
		t.Fatal(err)
	}
	if recipe.Package.Name != "millstream" || recipe.Package.Version != number {
		t.Errorf("got %s %s, want millstream %s", recipe.Package.Name, recipe.Package.Version, number)
	}
	for _, p := range programs {
		if !strings.Contains(recipe.Build.Script[0], " "+p) {
			t.Errorf("%s is not built by %s", p, recipe.Build.Script[0])
		}
	}
	project, err := os.ReadFile("../../../python/pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(project), "\ndependencies = [")
	list, _, found := strings.Cut(list, "]")
	if !found {
		t.Fatal("python/pyproject.toml has no dependencies")
	}
	for want := range strings.SplitSeq(list, ",") {
		name, version, _ := strings.Cut(strings.Trim(want, ` "`), ">=")
		if !slices.Contains(recipe.Requirements.Run, name+" >="+version) {
			t.Errorf("got requirements %q, want %s >=%s", recipe.Requirements.Run, name, version)
		}
	}
}
