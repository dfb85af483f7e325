package dask

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// flattenConfiguration prints the keys of the distributed.yaml of the interpreter's Dask as JSON.
const flattenConfiguration = `
import json, os, yaml, distributed

def walk(path, value):
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from walk(f"{path}.{name}", inner)
    else:
        yield path

with open(os.path.join(os.path.dirname(distributed.__file__), "distributed.yaml")) as f:
    print(json.dumps(list(walk("distributed", yaml.safe_load(f)["distributed"]))))
`

// Every configuration key of Dask is in the table of the guide, and the table has no other keys.
func TestDaskConfiguration(t *testing.T) {
	r := rig.New(t)
	out, err := exec.CommandContext(r.Context, r.Interpreter, "-c", flattenConfiguration).Output()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	if err := json.Unmarshal(out, &keys); err != nil || len(keys) < 100 {
		t.Fatalf("keys of Dask: got %d, error %v", len(keys), err)
	}
	page := filepath.Join("docs", "guide", "dask-configuration.md")
	text, err := os.ReadFile(filepath.Join(rig.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string]string{}
	rows := regexp.MustCompile("(?m)^\\| `(distributed[^`]*)` \\| (.*) \\|$")
	for _, row := range rows.FindAllStringSubmatch(string(text), -1) {
		if effects[row[1]] != "" {
			t.Errorf("%s: %s has two rows", page, row[1])
		}
		effects[row[1]] = row[2]
	}
	used := map[string]bool{}
	for _, key := range keys {
		row := key
		for row != "" && effects[row] == "" {
			row = row[:max(strings.LastIndexByte(row, '.'), 0)]
		}
		if row == "" {
			t.Errorf("%s: no row for %s: add its effect, or \"none: \" and the reason", page, key)
		}
		used[row] = true
	}
	for row, effect := range effects {
		if !used[row] {
			t.Errorf("%s: %s is not a key of Dask", page, row)
		}
		if slices.Contains([]string{"none", "none:"}, strings.TrimSpace(effect)) {
			t.Errorf("%s: %s: no reason", page, row)
		}
	}
	fields, err := exportedFields("api")
	if err != nil {
		t.Fatal(err)
	}
	for row, effect := range effects {
		for _, name := range regexp.MustCompile("`((?:scheduler|worker|cluster|comm|secure)\\.[A-Z][A-Za-z.]*)`").
			FindAllStringSubmatch(effect, -1) {
			if !fields[name[1]] {
				t.Errorf("%s: %s: no such field %s", page, row, name[1])
			}
		}
	}
}

// exportedFields returns the fields of structs in the API listings, as package.Type.Field.
func exportedFields(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(rig.Root(), dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	field := regexp.MustCompile(`(?m)^field ([A-Za-z.]+) `)
	out := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		for _, m := range field.FindAllStringSubmatch(string(text), -1) {
			out[name+"."+m[1]] = true
		}
	}
	return out, nil
}
