package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProxy checks the module proxy of a repository with the nested modules that are published.
func TestProxy(t *testing.T) {
	files := map[string]string{"go.mod": "module example.org/mill\n", "LICENSE": "license\n",
		"mill.go": "package mill\n"}
	for _, folder := range published {
		files[folder+"/go.mod"] = "module example.org/mill/" + folder + "\n\nrequire example.org/mill v0.0.0\n\n" +
			"replace example.org/mill => ../\n"
	}
	repo, commit := repository(t, files)
	s, err := checkout(t.Context(), repo, commit, "v0.1.0", filepath.Join(t.TempDir(), "source"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.proxy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range made {
		names = append(names, f.Name)
		if strings.HasSuffix(f.Name, ".mod") && bytes.Contains(f.Data, []byte("replace")) {
			t.Errorf("%s has a replacement: %s", f.Name, f.Data)
		}
	}
	for _, module := range append([]string{""}, published...) {
		for _, name := range []string{"list", "v0.1.0.info", "v0.1.0.mod", "v0.1.0.zip"} {
			if want := filepath.Join("go/example.org/mill", module, "@v", name); !slices.Contains(names, want) {
				t.Errorf("no %s in %q", want, names)
			}
		}
	}
}

func TestProxyWithoutModule(t *testing.T) {
	repo, commit := repository(t, hello)
	s, err := checkout(t.Context(), repo, commit, "v0.1.0", filepath.Join(t.TempDir(), "source"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.proxy(t.Context()); err == nil || !strings.Contains(err.Error(), "no module in "+published[0]) {
		t.Errorf("got error %v", err)
	}
}

// TestPublished checks that the nested modules of this repository need nothing of it but the root module.
func TestPublished(t *testing.T) {
	s := &source{dir: "../../.."}
	for _, folder := range published {
		mod, err := s.read(folder + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(mod)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "replace" && f[1] != "go.millstream.dev" {
				t.Errorf("%s replaces %s, which a release cannot", folder, f[1])
			}
		}
	}
}
