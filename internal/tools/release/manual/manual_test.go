package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"go.millstream.dev/cli"
)

var at = time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)

func sample() *cobra.Command {
	root := &cobra.Command{Use: "mill", Short: "Grind", Long: "Grind.\n.TH is not a request \\ here"}
	nothing := func(*cobra.Command, []string) {}
	sub := &cobra.Command{Use: "stone FILE...", Short: "Turn a stone", Example: "  mill stone a", Run: nothing}
	sub.Flags().IntP("size", "s", 4, "number of `grains`")
	sub.Flags().Bool("secret", false, "")
	if err := sub.Flags().MarkHidden("secret"); err != nil {
		panic(err)
	}
	hidden := &cobra.Command{Use: "hidden", Hidden: true, Run: nothing}
	root.AddCommand(sub, hidden)
	return root
}

func TestPages(t *testing.T) {
	pages := map[string]string{}
	for _, f := range Pages(sample(), "v0.1.0", at) {
		pages[f.Name] = string(f.Data)
	}
	for name, wants := range map[string][]string{
		"mill.1": {`.TH "MILL" 1 "2026\-03\-04" "mill v0.1.0" "User Commands"`, `\&.TH is not a request \e here`,
			`\fBmill\-stone\fR(1)`},
		"mill-stone.1": {"mill\\-stone \\- Turn a stone\n", ".B mill stone\n[flags] FILE...\n",
			".TP\n\\fB\\-s, \\-\\-size\\fR \\fIgrains\\fR\nnumber of grains (default 4)\n", "  mill stone a\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(pages[name], want) {
				t.Errorf("%s without %q:\n%s", name, want, pages[name])
			}
		}
	}
	if _, ok := pages["mill-hidden.1"]; ok || strings.Contains(pages["mill-stone.1"], "secret") {
		t.Errorf("hidden commands and flags have a page")
	}
}

// TestMillstream checks that every command has a page, and reads them with groff, where it is installed.
func TestMillstream(t *testing.T) {
	pages := Pages(cli.Command(), "v0.1.0", at)
	dir := t.TempDir()
	names := map[string]bool{}
	var files []string
	for _, f := range pages {
		names[f.Name] = true
		file := filepath.Join(dir, f.Name)
		files = append(files, file)
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"millstream.1", "millstream-scheduler.1", "millstream-worker.1",
		"millstream-journal-check.1", "millstream-completion-bash.1"} {
		if !names[want] {
			t.Errorf("no page %s", want)
		}
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Log("groff is not installed; the pages are not rendered")
		return
	}
	cmd := exec.Command("groff", append([]string{"-man", "-Tutf8", "-ww", "-z"}, files...)...)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v: %s", err, out)
	}
}

func TestCompletions(t *testing.T) {
	files, err := Completions(sample())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"share/bash-completion/completions/mill", "share/zsh/site-functions/_mill",
		"share/fish/vendor_completions.d/mill.fish"} {
		if files[i].Name != want || !strings.Contains(string(files[i].Data), "mill") {
			t.Errorf("got %s with %d bytes, want %s", files[i].Name, len(files[i].Data), want)
		}
	}
	file := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(file, files[0].Data, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("bash", "-n", file).CombinedOutput(); err != nil {
		t.Errorf("bash cannot parse its completion: %v: %s", err, out)
	}
}
