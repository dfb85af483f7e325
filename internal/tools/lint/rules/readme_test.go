package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeProgram compiles the program that README.md shows first: the one piece of code every newcomer copies.
func TestReadmeProgram(t *testing.T) {
	const root = "../../../.."
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```go\n")
	program, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatal("README.md shows no Go program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "vet", file)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the program in README.md is wrong: %v\n%s", err, out)
	}
}
