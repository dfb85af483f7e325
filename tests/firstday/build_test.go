package firstday

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// limit bounds each run of a program: no test waits for it where the product works.
const limit = 3 * time.Minute

var work string // the folder of all modules that tests build

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "millstream-firstday-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	work = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program is the user's binary, built once.
var program = sync.OnceValues(func() (string, error) {
	return buildModule("program", filepath.Join("testdata", "program"))
})

// command is the millstream binary.
var command = sync.OnceValues(func() (string, error) {
	out := filepath.Join(work, "millstream")
	return out, goBuild(repository(), "-o", out, "./cmd/millstream")
})

// buildModule makes a module of a folder's sources, as users have them, and builds it with
// what the module cache has. flags are those of go build.
func buildModule(name, sources string, flags ...string) (string, error) {
	dir, err := newModule(name)
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(sources)); err != nil {
		return "", err
	}
	out := filepath.Join(work, name+".bin")
	return out, goBuild(dir, append(flags, "-mod=mod", "-o", out, ".")...)
}

// newModule makes a folder with a go.mod that requires the repository: its requirements are
// the repository's, so that go.sum has all of them.
func newModule(name string) (dir string, err error) {
	dir = filepath.Join(work, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	root := repository()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	text := strings.Replace(string(mod), "module go.millstream.dev", "module example.com/"+name, 1) +
		"\nrequire go.millstream.dev v0.0.0\n\nreplace go.millstream.dev => " + root + "\n"
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", err
	}
	for file, content := range map[string][]byte{"go.mod": []byte(text), "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func goBuild(dir string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, out)
	}
	return nil
}

// repository is the folder of the repository's go.mod.
func repository() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}

// outcome is what a process has printed, on both of its outputs and on standard output alone,
// and its exit code.
type outcome struct {
	text, stdout string
	code         int
}

// lockedBuffer is written by the copiers of two outputs.
type lockedBuffer struct {
	mu sync.Mutex // owns b
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run runs a binary to its end.
func run(t *testing.T, binary func() (string, error), args ...string) outcome {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.TempDir()
	var out, stdout lockedBuffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, &stdout), &out
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%v did not end within %v; it printed\n%s", args, limit, out.String())
	}
	if cmd.ProcessState == nil {
		t.Fatalf("%v: %v", args, err)
	}
	return outcome{out.String(), stdout.String(), cmd.ProcessState.ExitCode()}
}

// wants checks the exit code and the texts: one that begins with "!" must not be there.
func (o outcome) wants(t *testing.T, code int, texts ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code: got %d, want %d; it printed\n%s", o.code, code, o.text)
	}
	for _, want := range texts {
		if unwanted, not := strings.CutPrefix(want, "!"); not {
			if strings.Contains(o.text, unwanted) {
				t.Errorf("got %q in the text, want none of it:\n%s", unwanted, o.text)
			}
		} else if !strings.Contains(o.text, want) {
			t.Errorf("want %q in the text, got\n%s", want, o.text)
		}
	}
}

// lineOf is file:line of the program's line that ends with a comment.
func lineOf(t *testing.T, comment string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "program", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "// "+comment) {
			return fmt.Sprintf("program/main.go:%d", i+1)
		}
	}
	t.Fatalf("no line ends with %q", comment)
	return ""
}
