package cudrv

import (
	"strings"
	"testing"
)

func TestResultText(t *testing.T) {
	for r, want := range map[Result]string{
		OutOfMemory: "CUDA_ERROR_OUT_OF_MEMORY",
		NotReady:    "CUDA_ERROR_NOT_READY",
		NotLoaded:   "not loaded",
		NoSymbol:    "too old",
		12345:       "12345",
	} {
		if name, _ := r.Text(); !strings.Contains(name, want) && !strings.Contains(name, "unrecognized") {
			t.Errorf("%d: %q, want %q", r, name, want)
		}
	}
}

func TestLoadErrorText(t *testing.T) {
	for _, c := range []struct {
		e    LoadError
		want string
	}{
		{LoadError{Stage: FailedOpen, Message: "no such file"}, "libcuda.so.1 cannot be opened: no such file"},
		{LoadError{Stage: FailedSymbol, Message: "cuInit", Path: "/lib/x.so"}, "/lib/x.so lacks the function cuInit"},
		{LoadError{Stage: FailedInit, Result: NoDevice, Path: "/lib/x.so"}, "cuInit of /lib/x.so failed: " +
			"CUDA_ERROR_NO_DEVICE"},
		{LoadError{Stage: NoCgo}, "CGO_ENABLED=0"},
		{LoadError{Stage: 77}, "77"},
	} {
		if got := c.e.Error(); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestLoadIsStable: the answer must not change between calls, whatever it is here.
func TestLoadIsStable(t *testing.T) {
	a, b := Load(), Load()
	if (a == nil) != (b == nil) || a != nil && a.Error() != b.Error() {
		t.Errorf("%v, then %v", a, b)
	}
}
