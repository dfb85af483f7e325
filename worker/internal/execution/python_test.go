package execution

import (
	"testing"

	"go.millstream.dev/internal/task"
)

func TestKeyPrefix(t *testing.T) {
	for key, want := range map[string]string{"inc-1234": "inc", "x": "x", "-a": "-a", "a-b-c": "a-b"} {
		if got := keyPrefix(task.NewKey(key)); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
