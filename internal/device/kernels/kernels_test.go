package kernels

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
)

// TestImagesMatchSources: a source that was changed without `make kernels` is found here.
func TestImagesMatchSources(t *testing.T) {
	known := map[string]bool{}
	for _, s := range Specs() {
		if known["ptx/"+s.Name+".ptx"] {
			t.Errorf("%s is listed twice", s.Name)
		}
		known["ptx/"+s.Name+".ptx"], known[s.Source], known[s.Head] = true, true, true
		stamp, err := s.Stamp()
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		image, err := PTX(s.Name)
		if err != nil {
			t.Errorf("%v: run `make kernels`", err)
			continue
		}
		if !strings.HasPrefix(string(image), stamp) {
			first, _, _ := strings.Cut(string(image), "\n")
			t.Errorf("%s.ptx was made of something else than %s is now: run `make kernels`\nhave %s\nwant %s", s.Name,
				s.Source, first, stamp)
		}
		for _, want := range []string{".version 8.0", ".target sm_70", ".entry"} {
			if !strings.Contains(string(image), want) {
				t.Errorf("%s.ptx has no %q", s.Name, want)
			}
		}
	}
	err := fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !known[path] {
			t.Errorf("%s belongs to no image of Specs", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStampDependsOnEverything(t *testing.T) {
	base := Spec{Name: "x", Source: "fold.cu", Flags: []string{"-DA", "-DB"}}
	first, err := base.Stamp()
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-DA"}, {"-DB", "-DA"}, {"-DA -DB"}, nil} {
		other := Spec{Name: "x", Source: "fold.cu", Flags: flags}
		if second, err := other.Stamp(); err != nil || second[len(second)-65:] == first[len(first)-65:] {
			t.Errorf("%v: the stamp is that of other flags (%v)", flags, err)
		}
	}
	if _, err := (Spec{Source: "none.cu"}).Stamp(); err == nil {
		t.Error("a stamp of no source")
	}
}

func TestLoadRefuses(t *testing.T) {
	if _, err := Load(0, "nonsense"); err == nil || !strings.Contains(err.Error(), `unknown image "nonsense"`) {
		t.Error(err)
	}
	if cuda.Available() == nil {
		return
	}
	for range 2 { // a failure is not kept, and fails again
		if _, err := Function(0, "fold_int8", "fold_sum"); !errors.Is(err, cuda.ErrUnavailable) {
			t.Error(err)
		}
	}
}
