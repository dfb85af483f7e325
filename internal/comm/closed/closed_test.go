package closed_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.millstream.dev/internal/comm/closed"
)

func TestIs(t *testing.T) {
	err := closed.New("a: thing is closed")
	wrapped := fmt.Errorf("read: %w", err)
	for _, target := range []error{err, net.ErrClosed} {
		if !errors.Is(wrapped, target) {
			t.Errorf("errors.Is(%v, %v) is false, want true", wrapped, target)
		}
	}
	for _, target := range []error{nil, io.EOF, os.ErrClosed, closed.New("b: thing is closed")} {
		if errors.Is(wrapped, target) {
			t.Errorf("errors.Is(%v, %v) is true, want false", wrapped, target)
		}
	}
	for _, other := range []error{net.ErrClosed, os.ErrClosed} {
		if errors.Is(other, err) {
			t.Errorf("errors.Is(%v, %v) is true, want false: the sentinel is the narrower of the two", other, err)
		}
	}
	if got, want := err.Error(), "a: thing is closed"; got != want {
		t.Errorf("got text %q, want %q", got, want)
	}
}

// TestNoNet: package mem stands on this one and must not link net.
func TestNoNet(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "go.millstream.dev/mem").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); name == "net" || name == "runtime/cgo" {
			t.Errorf("mem links %s", name)
		}
	}
}
