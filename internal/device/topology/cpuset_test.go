package topology_test

import (
	"slices"
	"testing"

	"go.millstream.dev/internal/device/topology"
	"pgregory.net/rapid"
)

func TestCPUList(t *testing.T) {
	for text, want := range map[string]string{"": "", " 3 \n": "3", "0-3,8,10-11": "0-3,8,10-11", "5,4,3": "3-5",
		"1,1,1-2": "1-2", "8191": "8191"} {
		s, err := topology.ParseCPUList(text)
		if err != nil || s.String() != want {
			t.Errorf("%q: %s, %v", text, s, err)
		}
	}
	for _, text := range []string{"-1", "1-", "a", "1,,2", "3-1", "8192", "0-99999999999999999999", "1;2"} {
		if s, err := topology.ParseCPUList(text); err == nil {
			t.Errorf("%q gave %s", text, s)
		}
	}
}

// Text and back is the same set, and And is what both lists have.
func TestCPUSetProperties(t *testing.T) {
	cpus := rapid.SliceOf(rapid.IntRange(0, 300))
	rapid.Check(t, func(t *rapid.T) {
		x, y := cpus.Draw(t, "x"), cpus.Draw(t, "y")
		a, b := topology.CPUs(x...), topology.CPUs(y...)
		back, err := topology.ParseCPUList(a.String())
		if err != nil || !back.Equal(a) {
			t.Fatalf("%s became %s, %v", a, back, err)
		}
		both := a.And(b)
		for c := range 310 {
			if both.Has(c) != (slices.Contains(x, c) && slices.Contains(y, c)) {
				t.Fatalf("%d in both of %s and %s", c, a, b)
			}
		}
		if a.Len() != len(a.List()) || !slices.IsSorted(a.List()) {
			t.Fatalf("%d processors in %v", a.Len(), a.List())
		}
	})
}

func FuzzParseCPUList(f *testing.F) {
	for _, s := range []string{"0-3,8", "", "1-", "0-8191", ",", "9-9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := topology.ParseCPUList(text)
		if err != nil {
			return
		}
		if back, err := topology.ParseCPUList(s.String()); err != nil || !back.Equal(s) {
			t.Errorf("%q: %s, back %s, %v", text, s, back, err)
		}
	})
}
