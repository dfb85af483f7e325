package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGuide compares the checks with the table of docs/guide/troubleshooting.md, whose first column has their IDs.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guide", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## What doctor finds\n")
	if !ok {
		t.Fatal(`the guide has no section "What doctor finds"`)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\|([^|]*`[^|]*)\\|").FindAllStringSubmatch(section, -1) {
		for _, id := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			got = append(got, id[1])
		}
	}
	var want []string
	for _, c := range Checks() {
		want = append(want, c.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("IDs in the guide\n got %q\nwant %q", got, want)
	}
}
