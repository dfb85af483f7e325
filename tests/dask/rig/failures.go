package rig

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// failures are the errors of a test, told again after the logs of its processes: those are long, and who reads the
// end of an output that was cut sees nothing else.
type failures struct {
	mu   sync.Mutex
	said []string
}

// repeated makes the failures of a test. It is called before anything else asks for a clean-up, so that its own is
// the last.
func repeated(t testing.TB) *failures {
	f := &failures{}
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.said) > 0 {
			t.Logf("what was wrong, once more:\n%s", strings.Join(f.said, "\n"))
		}
	})
	return f
}

// Errorf fails the test, and says so once more at its end.
func (r *Rig) Errorf(format string, args ...any) {
	r.Helper()
	r.wrong.mu.Lock()
	r.wrong.said = append(r.wrong.said, fmt.Sprintf(format, args...))
	r.wrong.mu.Unlock()
	r.TB.Errorf(format, args...)
}
