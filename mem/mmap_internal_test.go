package mem

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// The limit itself cannot be reached by a privileged test run, the text can.
func TestMlockErrorText(t *testing.T) {
	err := mlockError(1<<20, syscall.ENOMEM)
	if !errors.Is(err, ErrOutOfMemory) || !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
	for _, want := range []string{"1048576 bytes", "locked-memory limit is", "ulimit -l"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := mlockError(1, syscall.EINVAL); errors.Is(err, ErrOutOfMemory) || !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}
