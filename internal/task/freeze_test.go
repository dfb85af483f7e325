package task

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFreeze runs in a separate process, because a frozen registry stays frozen.
func TestFreeze(t *testing.T) {
	const role = "MILLSTREAM_TEST_FREEZE"
	if os.Getenv(role) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFreeze$")
		cmd.Env = append(os.Environ(), role+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	before := Hash()
	if Frozen() {
		t.Error("frozen at first")
	}
	Freeze()
	Freeze()
	if !Frozen() || Hash() != before {
		t.Errorf("frozen %v, hash %s, before %s", Frozen(), Hash(), before)
	}
	if f, ok := Lookup("t.inc"); !ok || f != incF {
		t.Error("function missing after Freeze")
	}
	if v, err := runSpec(t, specOf(t, incF, Val(1))); v != 2 || err != nil {
		t.Error(v, err)
	}
	text := panics(t, func() { Register0("t.too-late", func(context.Context) (int, error) { return 0, nil }) })
	if !strings.Contains(text, "after millstream.Main") {
		t.Errorf("registration after Freeze: got %s, want the reason", text)
	}
}
