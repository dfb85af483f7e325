package firstday

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/testkit/leak"
)

// README's first program links neither the command line nor a benchmark, nor what only they need.
func TestLinkedPackages(t *testing.T) {
	leak.Check(t)
	dir, err := newModule("linked")
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlocks(t, filepath.Join(repository(), "README.md"))
	if len(blocks) == 0 || !strings.Contains(blocks[0], "millstream.Local") {
		t.Fatalf("README has no first program: got %d programs", len(blocks))
	}
	write(t, filepath.Join(dir, "main.go"), blocks[0])
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-deps", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for path := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(path, "github.com/spf13/") {
			t.Errorf("the program links %s", path)
		}
		path, ok := strings.CutPrefix(path, "go.millstream.dev")
		if !ok {
			continue
		}
		ours++
		if path == "/cli" || strings.HasPrefix(path, "/cli/") || strings.Contains(path, "bench") ||
			strings.HasPrefix(path, "/frame") {
			t.Errorf("the program links go.millstream.dev%s", path)
		}
	}
	if ours < 20 {
		t.Errorf("the program links %d packages of this module, want at least 20:\n%s", ours, out)
	}
}

// Commands are those of the program that asks for them, under its name; in another one they are plain arguments.
func TestCommands(t *testing.T) {
	leak.Check(t)
	plan, code := "CUDA_VISIBLE_DEVICES", 0
	if cuda.Available() != nil {
		plan, code = "program.bin cuda-worker: cluster: GPU workers: cuda: count devices: CUDA is not available",
			1
	}
	run(t, program, "cuda-worker", "tcp://127.0.0.1:1", "--print-plan").wants(t, code, plan)
	run(t, program, "worker", "--nthread").wants(t, 2, "program.bin worker: unknown flag: --nthread; did you mean "+
		"--nthreads?")
	t.Setenv("PROGRAM_WITHOUT_COMMANDS", "1")
	run(t, program, "worker", "tcp://127.0.0.1:1").wants(t, 1, `error: unknown verb "worker"`)
}
