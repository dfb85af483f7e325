package parity

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestParity holds docs/parity.md against the source.
func TestParity(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "parity.md"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := newIndex(root)
	if err != nil {
		t.Fatal(err)
	}
	problems, rows := check(string(text), x)
	for _, p := range problems {
		t.Errorf("docs/parity.md, %s", p)
	}
	// A table that lost its form would be no table, and nothing in it would be checked.
	if len(rows) != 3 || rows[0] < 70 || rows[1] < 25 || rows[2] < 60 {
		t.Errorf("docs/parity.md has tables of %v rows; want one of features, one of comms_t and one of tests, of 70, "+
			"25 and 60 rows at least", rows)
	}
}

// source is a small module with each kind of declaration.
var source = map[string]string{
	"go.mod": "module example.org/m\n",
	"include/millstream.h": "MILLSTREAM_API int millstream_v1_f(int);\n/* millstream_v1_g() */\n" +
		"MILLSTREAM_API const char *millstream_v1_h(void);\n",
	"a/a.go": `package a
type T struct { Field int; hidden int; *Base }
type Base struct{}
func (t *T) Method() {}
func (t T) private() {}
type hiddenType struct{}
func (hiddenType) Method() {}
type Gen[K comparable] struct{}
func (g *Gen[K]) Get() {}
type Pair[K, V any] struct{}
func (p Pair[K, V]) Both() {}
type I interface { Call(); Base2 }
type Base2 interface{}
type Alias = T
const C, D = 1, 2
var V int
func New[T any]() {}
`,
	"a/a_test.go": `package a_test
import "testing"
func TestA(t *testing.T) {}
func FuzzA(f *testing.F) {}
func TestMain(m *testing.M) {}
func Testing(t *testing.T) {}
func TestÉtat(t *testing.T) {}
func Helper() {}
type TX struct{}
func (TX) TestMethod(t *testing.T) {}
`,
	"in/deep/b.go":          "package deep\nfunc B() {}\n",
	"in/deep/b_test.go":     "package deep\nimport \"testing\"\nfunc TestB(t *testing.T) {}\n",
	"in/testdata/c.go":      "package c\nfunc C() {}\n",
	"in/deep/other_test.go": "//go:build never\npackage deep\nimport \"testing\"\nfunc TestTagged(t *testing.T) {}\n",
}

func sourceIndex(t *testing.T) *index {
	t.Helper()
	dir := t.TempDir()
	for name, text := range source {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	x, err := newIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestIndex(t *testing.T) {
	x := sourceIndex(t)
	for _, c := range []struct {
		what string
		got  map[string]bool
		want string
	}{
		{"folders", x.folders, "a in/deep"},
		{"symbols", x.symbols, "a.Alias a.Base a.Base2 a.C a.D a.Gen a.Gen.Get a.I a.I.Base2 a.I.Call a.New a.Pair " +
			"a.Pair.Both a.T a.T.Base a.T.Field a.T.Method a.V in/deep.B millstream_v1_f millstream_v1_h"},
		{"tests", x.tests, "a.FuzzA a.TestA a.TestÉtat in/deep.TestB in/deep.TestTagged"},
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(c.got)), " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	x := sourceIndex(t)
	const features = "| Capability | Peers | Millstream | Tests | Why not, or what differs |\n|---|---|---|---|---|\n"
	const theirs = "| Theirs | Ours | Why not |\n|---|:-:|---|\n"
	for _, c := range []struct {
		name, text string
		want       []string // a part of each problem
	}{
		{"good", features + "| x | all | `a.T.Method` `in/deep.B` `a.Gen.Get` | `a.TestA` `in/deep.TestB` | |", nil},
		{"reason alone", features + "| x | all | – | – | no use |", nil},
		{"reason beside", features + "| x | all | `a.C` | `a.FuzzA` | uses `net.Conn`, `a.V` and `a b` |", nil},
		{"missing symbol", features + "| x | all | `a.T.Gone` `a.C` | `a.TestA` | |",
			[]string{`line 3, "x": no symbol a.T.Gone`}},
		{"missing package", features + "| x | all | `gone.T` | `a.TestA` | |", []string{"no symbol gone.T"}},
		{"unexported symbol", features + "| x | all | `a.T.hidden` | `a.TestA` | |", []string{"no symbol a.T.hidden"}},
		{"missing test", features + "| x | all | `a.T` | `a.TestGone` | |", []string{"no test a.TestGone"}},
		{"helper as test", features + "| x | all | `a.T` | `a.TestMain` `a.Helper` | |",
			[]string{"no test a.TestMain", "no test a.Helper"}},
		{"symbol as test", features + "| x | all | `a.T` | `a.C` | |", []string{"no test a.C"}},
		{"empty row", features + "| x | all | | | |", []string{"names nothing"}},
		{"dashes only", features + "| x | all | – | – | |", []string{"names nothing"}},
		{"no test", features + "| x | all | `a.T` | – | too hard |", []string{"no test of the symbols"}},
		{"no symbol", features + "| x | all | – | `a.TestA` | why |", []string{"tests of no symbol"}},
		{"bare name", features + "| x | all | a.T | `a.TestA` | |", []string{"not in backticks", "tests of no symbol"}},
		{"bare name behind", features + "| x | all | `a.T` – | `a.TestA` | |", []string{"not in backticks"}},
		{"missing in prose", features + "| x | all | – | – | use `a.Gone` |", []string{"no symbol or test a.Gone"}},
		{"too few cells", features + "| x | all | `a.T` | `a.TestA` |", []string{"4 cells in a table of 5 columns"}},
		{"second table", features + "| x | all | `a.T` | `a.TestA` | |\n\n" + theirs + "| y | `a.TestB` | |",
			[]string{`line 7, "y": no test a.TestB`}},
		{"tests only", theirs + "| y | `a.TestA` | |\n| z | – | no use |", nil},
		{"tests only, empty", theirs + "| y | – | |", []string{"names nothing"}},
		{"not a table of ours", "| a | b |\n|---|---|\n| 1 | 2 |", []string{"needs the columns"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, rows := check(c.text, x)
			if len(got) != len(c.want) {
				t.Fatalf("problems %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %q, want %q in it", got[i], want)
				}
			}
			if len(rows) == 0 || rows[0] == 0 {
				t.Errorf("rows %v", rows)
			}
		})
	}
}
