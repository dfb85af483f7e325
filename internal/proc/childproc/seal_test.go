package childproc

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A descriptor that a native library would have left open for children is not in them, one
// that is handed over is.
func TestSeal(t *testing.T) {
	for name, seal := range map[string]func() error{"close_range": Seal, "one by one": sealEach} {
		t.Run(name, func(t *testing.T) {
			leaky, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(leaky)
			given, err := os.Open("/dev/full")
			if err != nil {
				t.Fatal(err)
			}
			defer given.Close()
			list := func() string {
				cmd := exec.Command("ls", "-l", "/proc/self/fd")
				cmd.ExtraFiles = []*os.File{given}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			if out := list(); !strings.Contains(out, "/dev/zero") {
				t.Fatalf("the test is wrong: the child does not inherit\n%s", out)
			}
			if err := seal(); err != nil {
				t.Fatal(err)
			}
			if out := list(); strings.Contains(out, "/dev/zero") || !strings.Contains(out, "/dev/full") {
				t.Errorf("the child has\n%s", out)
			}
		})
	}
}
