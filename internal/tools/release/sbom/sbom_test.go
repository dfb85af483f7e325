package sbom

import (
	"encoding/json"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

var program = Program{"mill", "0.1.0", "Apache-2.0", "https://example.org", time.Unix(1_800_000_000, 0)}

func TestDocument(t *testing.T) {
	d := document(program, &debug.BuildInfo{GoVersion: "go1.26.0", Path: "example.org/mill/cmd/mill",
		Main: debug.Module{Path: "example.org/mill", Version: "v0.1.0"},
		Deps: []*debug.Module{{Path: "example.org/a", Version: "v1.2.3+incompatible", Sum: "h1:x"},
			{Path: "example.org/old", Version: "v1.0.0", Sum: "h1:old",
				Replace: &debug.Module{Path: "example.org/new", Version: "v2.0.0", Sum: "h1:new"}},
			{Path: "example.org/mill/nested", Version: "(devel)"}},
		Settings: []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}, {Key: "-compiler", Value: "gc"}}},
		[32]byte{0xab})
	var names, locators []string
	for _, p := range d.Packages {
		names = append(names, p.Name+" "+p.Version)
		locators = append(locators, p.References[0].Locator)
	}
	want := []string{"mill 0.1.0", "stdlib 1.26.0", "example.org/a v1.2.3+incompatible", "example.org/new v2.0.0"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	want = []string{"pkg:golang/example.org/mill@v0.1.0", "pkg:golang/stdlib@1.26.0",
		"pkg:golang/example.org/a@v1.2.3%2Bincompatible", "pkg:golang/example.org/new@v2.0.0"}
	if !slices.Equal(locators, want) {
		t.Errorf("got %q, want %q", locators, want)
	}
	if got, want := d.Packages[0].Source, "go build CGO_ENABLED=0 example.org/mill/cmd/mill"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(d.Relationships) != len(d.Packages) || d.Relationships[0].Kind != "DESCRIBES" {
		t.Errorf("got relationships %v", d.Relationships)
	}
	if !strings.HasPrefix(d.Packages[0].Checksums[0].Value, "ab00") {
		t.Errorf("got checksum %s", d.Packages[0].Checksums[0].Value)
	}
	ids := map[string]bool{}
	for _, p := range d.Packages {
		if ids[p.ID] {
			t.Errorf("two packages with the ID %s", p.ID)
		}
		ids[p.ID] = true
	}
}

// TestOf reads the executable of this test.
func TestOf(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Of(program, data)
	if err != nil {
		t.Fatal(err)
	}
	var d Document
	if err := json.Unmarshal(text, &d); err != nil || d.Version != "SPDX-2.3" || len(d.Packages) < 2 {
		t.Errorf("got %v, %s", err, text)
	}
	if d.Creation.Created != "2027-01-15T08:00:00Z" {
		t.Errorf("created %s", d.Creation.Created)
	}
	if _, err := Of(program, []byte("no executable")); err == nil || !strings.HasPrefix(err.Error(), "sbom: mill: ") {
		t.Errorf("a file that is no executable: got error %v", err)
	}
}
