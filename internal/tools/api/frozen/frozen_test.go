package frozen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files and returns their folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const released = `const Limit
field Config.Name string
func Connect(ctx context.Context, address string) (*Client, error)
func Gather[T any](ctx context.Context, futures []*Future[T]) ([]T, error)
interface method Reader.Read(p []byte) (int, error)
interface method Closer.Close() error
method (*Client) Close() error
method (Status) String() string
promoted method Key.String() string
type Client struct
type Closer interface
type Config struct
type Reader interface
type Status int
var ErrClosed
`

func TestBreaks(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(released) }
	for name, c := range map[string]struct {
		now, changes string
		want         []string
	}{
		"same":           {now: released},
		"added":          {now: released + "func New() int\nfield Config.More int\n"},
		"parameter name": {now: edit("address string", "target string", "p []byte", "buffer []byte")},
		"promoted":       {now: edit("promoted method Key.String", "method (Key) String")},
		"type of parameter": {now: edit("address string", "address []string"),
			want: []string{"removed or changed: func Connect("}},
		"result":         {now: edit("([]T, error)", "[]T"), want: []string{"func Gather["}},
		"type parameter": {now: edit("Gather[T any]", "Gather[T comparable]"), want: []string{"func Gather["}},
		"field": {now: edit("Config.Name string", "Config.Name []byte"),
			want: []string{"field Config.Name string"}},
		"receiver": {now: edit("(Status) String", "(*Status) String"), want: []string{"method (Status) String"}},
		"variable": {now: edit("var ErrClosed\n", ""), want: []string{"var ErrClosed"}},
		"members of a removed type": {now: edit("type Config struct\n", "", "field Config.Name string\n", ""),
			want: []string{"type Config struct"}},
		"method of an interface": {now: released + "interface method Reader.Seek(n int) error\n",
			want: []string{"added to an interface: interface method Reader.Seek"}},
		"new interface": {now: released + "type Writer interface\ninterface method Writer.Write(p []byte) error\n"},
		"announced": {now: edit("var ErrClosed\n", "", "const Limit\n", ""),
			changes: "## Unreleased\n\n### Removed\n\n- `m.ErrClosed`: use `net.ErrClosed`\n\n### Added\n\n- `Limit`\n",
			want:    []string{"const Limit"}},
		"announced before": {now: edit("var ErrClosed\n", ""),
			changes: "## Unreleased\n\n## [0.10.0] - 2030-01-01\n\n### Removed\n\n- `ErrClosed`\n",
			want:    []string{"var ErrClosed"}},
		"package": {now: "", want: []string{"const Limit", "func Connect", "func Gather", "type Client", "type Closer",
			"type Config", "type Reader", "type Status", "var ErrClosed", "promoted method Key.String"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"api/v0.9.0/m.txt": "func Older()\n", "api/v0.10.0/m.txt": released,
				"CHANGELOG.md": "# Changes\n\n" + c.changes}
			if c.now != "" {
				files["api/m.txt"] = c.now
			}
			breaks, err := Breaks(tree(t, files))
			if err != nil {
				t.Fatal(err)
			}
			if len(breaks) != len(c.want) {
				t.Errorf("got %d breaks, want %d: %v", len(breaks), len(c.want), breaks)
			}
			for _, want := range c.want {
				found := false
				for _, b := range breaks {
					text, ok := strings.CutPrefix(b.String(), "api/v0.10.0/m.txt: ")
					found = found || ok && strings.Contains(text, want)
				}
				if !found {
					t.Errorf("no break %q in %v", want, breaks)
				}
			}
		})
	}
}

func TestFreeze(t *testing.T) {
	root := tree(t, map[string]string{"api/m.txt": released, "api/n.txt": "func F()\n", "CHANGELOG.md": ""})
	if latest, err := Latest(root); latest != "" || err != nil {
		t.Errorf("before a release: got %q, %v", latest, err)
	}
	if breaks, err := Breaks(root); len(breaks) > 0 || err != nil {
		t.Errorf("before a release: got %v, %v", breaks, err)
	}
	for _, bad := range []string{"", "0.1.0", "v0.1", "v0.1.0-rc.1", "../v0.1.0"} {
		if err := Freeze(root, bad); err == nil || !strings.Contains(err.Error(), "not of the form") {
			t.Errorf("version %q: got error %v", bad, err)
		}
	}
	if err := Freeze(root, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "api/v0.1.0/m.txt")); string(got) != released {
		t.Errorf("got %q, %v", got, err)
	}
	if latest, err := Latest(root); latest != "v0.1.0" || err != nil {
		t.Errorf("got %q, %v", latest, err)
	}
	if breaks, err := Breaks(root); len(breaks) > 0 || err != nil {
		t.Errorf("right after: got %v, %v", breaks, err)
	}
	if err := Freeze(root, "v0.1.0"); err == nil {
		t.Error("a frozen listing was written again")
	}
}

// TestLines reads every line of the listing of this repository: no two of a package have one meaning, and members have
// their types.
func TestLines(t *testing.T) {
	files, err := listing("../../../../api")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for name, lines := range files {
		if got := len(declarations(lines)); got != len(lines) {
			t.Errorf("%s: got %d declarations of %d lines", name, got, len(lines))
		}
		for _, line := range lines {
			d := parse(line)
			member := strings.HasPrefix(line, "field ") || strings.HasPrefix(line, "method ") ||
				strings.HasPrefix(line, "interface ") || strings.HasPrefix(line, "promoted ")
			if d.member == "" || (d.owner != "") != member {
				t.Errorf("%s: %s: got owner %q, name %q", name, line, d.owner, d.member)
			}
		}
	}
}
