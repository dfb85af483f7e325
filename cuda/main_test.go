package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
)

// childRole makes the test binary run one function instead of its tests: what needs a second
// process, or a process in which CUDA was not yet touched.
const childRole = "CUDA_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := children[role](); err != nil {
			os.Stderr.WriteString(role + ": " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The driver keeps descriptors for the life of the process: goroutines alone.
	os.Exit(leak.Main(m, leak.IgnoreFD("")))
}

var children = map[string]func() error{
	"no-driver":    childNoDriver,
	"lazy-context": childLazyContext,
	"ipc":          childIPC,
}

// runChild runs a role in a new process with extra environment and returns its output.
func runChild(t *testing.T, role string, stdin []byte, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), childRole+"="+role), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", role, err, out)
	}
	return string(out)
}

// requireGPU skips a test on a machine without a usable GPU.
func requireGPU(t testing.TB) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: " + err.Error())
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func alloc(t testing.TB, r mem.Resource, n int) *mem.Buffer {
	t.Helper()
	b, err := r.Alloc(within(t), n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newStream(t testing.TB, device int) *cuda.Stream {
	t.Helper()
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func one[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// pattern returns n random bytes, new ones at each call.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// read copies a buffer to the host.
func read(t testing.TB, b *mem.Buffer) []byte {
	t.Helper()
	out := make([]byte, b.Len())
	must(t, cuda.CopyToHost(within(t), out, b))
	return out
}

func checkSame(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(got), got[i], want[i])
		}
	}
}

func wantError(t testing.TB, err error, is error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", is)
		return
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("%v is not %v", err, is)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}
