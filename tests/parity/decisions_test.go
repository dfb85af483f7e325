package parity

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The records of decisions have consecutive numbers, and the index has each with its title.
func TestDecisions(t *testing.T) {
	dir := filepath.Join(root, "docs", "adr")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("got %d records, want at least 20", len(files))
	}
	for i, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		first, _, _ := strings.Cut(string(text), "\n")
		if i == 0 {
			if name != "0000-template.md" {
				t.Errorf("got %s first, want 0000-template.md", name)
			}
			continue
		}
		number := fmt.Sprintf("%04d", i)
		title, ok := strings.CutPrefix(first, "# "+number+": ")
		if !ok || !strings.HasPrefix(name, number+"-") {
			t.Errorf("%s begins with %q, want number %s in both", name, first, number)
		}
		if line := fmt.Sprintf("| [%s](%s) | %s |\n", number, name, title); !strings.Contains(string(index), line) {
			t.Errorf("the index has no line %q", line)
		}
	}
}
