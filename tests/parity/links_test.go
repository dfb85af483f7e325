package parity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.millstream.dev/internal/proc/docfiles"
	"go.millstream.dev/internal/tools/tree"
)

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	inline   = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	external = regexp.MustCompile(`^(?:https?|mailto):`)
)

// anchors returns the fragments of a document's headings, as GitHub forms them.
func anchors(text string) map[string]bool {
	out, slugs := map[string]bool{}, docfiles.Slugs{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		out[slugs.Next(strings.TrimSpace(m[1]))] = true
	}
	return out
}

// deadLinks returns the relative links of a document that lead nowhere. read returns a file of the repository.
func deadLinks(name, text string, read func(string) (string, error)) []string {
	var dead []string
	text = inline.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if external.MatchString(m[1]) {
			continue
		}
		file, fragment, _ := strings.Cut(m[1], "#")
		target := name
		if file != "" {
			target = filepath.Join(filepath.Dir(name), file)
		}
		content, err := read(target)
		if err != nil || fragment != "" && !anchors(content)[fragment] {
			dead = append(dead, m[1])
		}
	}
	return dead
}

// Every relative link of a document leads to a file of the repository and to a heading in it.
func TestDocumentLinks(t *testing.T) {
	files, err := tree.Files(root)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) (string, error) {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.IsDir() {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		return string(text), err
	}
	n := 0
	for _, name := range files {
		if filepath.Ext(name) != ".md" {
			continue
		}
		text, err := read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted in the working tree
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
		for _, l := range deadLinks(name, text, read) {
			t.Errorf("%s: dead link %s", name, l)
		}
	}
	if n < 40 {
		t.Errorf("got %d documents, want at least 40", n)
	}
}

func TestDeadLinks(t *testing.T) {
	pages := map[string]string{"docs/a.md": "# A\n\n## `x`: one, two\n\n## A\n", "docs/b.go": ""}
	read := func(name string) (string, error) {
		if text, ok := pages[name]; ok {
			return text, nil
		}
		return "", fs.ErrNotExist
	}
	const text = "[a](a.md) [x](a.md#x-one-two) [2](a.md#a-1) [go](b.go) [self](#here) [web](https://example.com/x) " +
		"`[no](c.md)`" +
		"\n\n# Here\n\n```\n[no](d.md)\n```\n\n[gone](e.md) [fragment](a.md#y) [3](a.md#a-2) " +
		"[own](#there)\n"
	pages["docs/c.md"] = text
	got := strings.Join(deadLinks("docs/c.md", text, read), " ")
	if want := "e.md a.md#y a.md#a-2 #there"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
