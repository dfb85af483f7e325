package testfuncs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.org/m\n",
		"go.work":        "use (\n\t.\n\t./used\n)\n",
		"used/go.mod":    "module example.org/m/used\n",
		"used/a_test.go": "package used\nimport \"testing\"\nfunc TestGPUUsed(t *testing.T) {}\n",
		"root_test.go":   "package m\nimport \"testing\"\nfunc TestGPURoot(t *testing.T) {}\n",
		"p/a_test.go": "//go:build never\n\npackage p\nimport \"testing\"\nfunc TestGPUHidden(t *testing.T) " +
			"{}\nfunc TestOther(t *testing.T) {}\n",
		"p/b_test.go": "package p_test\nimport \"testing\"\nfunc TestGPUZ(*testing.T) {}\nfunc TestGPUA(t " +
			"*testing.T) {}\nfunc FuzzX(f *testing.F) {}\n",
		"p/c_test.go": "//go:build !never\n\npackage p\nimport \"testing\"\nfunc TestGPUHidden(t " +
			"*testing.T) {}\n",
		"p/helper_test.go": "package p\nimport \"testing\"\ntype s struct{}\nfunc (s) TestGPUMethod(t " +
			"*testing.T) {}\nfunc TestGPUHelper(t *testing.T, n int) {}\nfunc TestGPUPair(a, b *testing.T) {}\nfunc " +
			"TestGPUValue() int { return 1 }\n",
		"p/code.go":            "package p\nimport \"testing\"\nfunc TestGPUNotATest(t *testing.T) {}\n",
		"p/testdata/x_test.go": "package x\nimport \"testing\"\nfunc TestGPUData(t *testing.T) {}\n",
		"nested/go.mod":        "module other\n",
		"nested/n_test.go":     "package n\nimport \"testing\"\nfunc TestGPUNested(t *testing.T) {}\n",
	} {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Find(root, GPU)
	if err != nil {
		t.Fatal(err)
	}
	want := []Func{
		{"example.org/m", "TestGPURoot", "root_test.go"},
		{"example.org/m/p", "TestGPUA", "p/b_test.go"},
		{"example.org/m/p", "TestGPUHidden", "p/a_test.go"},
		{"example.org/m/p", "TestGPUZ", "p/b_test.go"},
		{"example.org/m/used", "TestGPUUsed", "used/a_test.go"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("Find(TestGPU):\n got %v\nwant %v", got, want)
	}
	if p := Packages(got); !slices.Equal(p, []string{"example.org/m", "example.org/m/p", "example.org/m/used"}) {
		t.Errorf("Packages = %q", p)
	}
	fuzz, err := Find(root, "Fuzz")
	if err != nil || !slices.Equal(fuzz, []Func{{"example.org/m/p", "FuzzX", "p/b_test.go"}}) {
		t.Errorf("Find(Fuzz) = %v, %v", fuzz, err)
	}
}

func TestFindBadSource(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n", "x_test.go": "package\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Find(root, GPU); err == nil {
		t.Error("a file that does not parse must be an error: its tests would be missed")
	}
}
