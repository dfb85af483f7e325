package comms

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

var (
	enumText    = regexp.MustCompile(`(?s)enum \{(.*?)\}`)
	commentText = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

// enums returns the constants of the enumerations of a C header without their prefix.
func enums(t *testing.T, file, prefix string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rig.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int{}
	for _, m := range enumText.FindAllStringSubmatch(commentText.ReplaceAllString(string(text), ""), -1) {
		next := 0
		for part := range strings.SplitSeq(m[1], ",") {
			name, number, set := strings.Cut(strings.TrimSpace(part), "=")
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if set {
				if next, err = strconv.Atoi(strings.TrimSpace(number)); err != nil {
					t.Fatalf("%s: %s: %v", file, name, err)
				}
			}
			short, ok := strings.CutPrefix(name, prefix)
			if _, twice := values[short]; !ok || twice {
				t.Errorf("%s: constant %s has another prefix than %s, or is there twice", file, name, prefix)
			}
			values[short] = next
			next++
		}
	}
	return values
}

// TestConstants checks that types, reductions and results have the same values in the header of the library and in that
// of native functions: programs pass them from one to the other. Kinds of memory are different sets.
func TestConstants(t *testing.T) {
	library := enums(t, "include/millstream.h", "MILLSTREAM_")
	native := enums(t, "clique/native/millstream_native.h", "MS_")
	equal := 0
	for name, want := range native {
		switch name {
		case "HOST", "PINNED", "DEVICE", "MANAGED": // of memory
		case "CANCELED": // the library has time limits instead, with the same value
			if library["TIMEOUT"] != want {
				t.Errorf("TIMEOUT: got %d, want %d, as MS_CANCELED", library["TIMEOUT"], want)
			}
		default:
			if got, ok := library[name]; !ok || got != want {
				t.Errorf("%s: got %d (%v) in the library, want %d", name, got, ok, want)
			}
			equal++
		}
	}
	if want := 12 + 5 + 5; equal != want {
		t.Errorf("compared %d constants, want %d: 12 types, 5 reductions, 5 results", equal, want)
	}
}
