package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
)

// The bytes of primitives are released with them: repeated changes do not use up Config.PrimitiveBytes, also after the
// journal was read.
func TestPrimitiveBytesAreGivenBack(t *testing.T) {
	leak.Check(t)
	dir, value := t.TempDir(), strings.Repeat("x", 1000)
	counted := func(s *Scheduler) (n int64) {
		t.Helper()
		if err := s.loop.Do(t.Context(), func() { n = s.budget.Bytes() }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	s := start(t, Config{Journal: dir})
	c := connect(t, s, "client-1")
	change := func(i int) {
		c.call("set_metadata", "keys", names("a", "b", "c"), "value", value)
		c.call("set_metadata", "keys", names("a", "plain"), "value", fmt.Sprint("v", i%2))
		c.call("register_worker_plugin", "plugin", []byte(value), "name", "p", "idempotent", false)
		c.call("register_nanny_plugin", "plugin", []byte(value), "name", "left", "idempotent", false)
		c.call("unregister_worker_plugin", "name", "p")
		if got := c.call("multi_lock_acquire", "locks", names("l", "m"), "id", "1", "num_locks", 2); got != true {
			t.Fatalf("multi_lock_acquire: got %v, want true", got)
		}
		c.call("multi_lock_release", "id", "1")
	}
	change(0)
	first := counted(s)
	if first < 2000 {
		t.Errorf("bytes of metadata and a plugin of 1000 bytes each: got %d, want at least 2000", first)
	}
	for i := range 20 {
		change(i + 1)
	}
	if got := counted(s); got != first {
		t.Errorf("bytes after 20 equal changes: got %d, want %d", got, first)
	}
	c.call("set_metadata", "keys", names("a"), "value", nil) // replaces what is below
	c.call("set_metadata", "keys", names("a", "b", "c"), "value", value)
	c.call("set_metadata", "keys", names("a", "plain"), "value", "v0")
	if got := counted(s); got != first {
		t.Errorf("bytes after metadata was replaced and set again: got %d, want %d", got, first)
	}
	c.close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := counted(start(t, Config{Journal: dir})); got != first {
		t.Errorf("bytes after a restart: got %d, want %d", got, first)
	}
}
