//go:build containers

package containers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tutorialImage has what the tutorial names: Linux and a C compiler. Go is mounted.
const tutorialImage = "localhost/millstream-tutorial"

const tutorialFile = `FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home reader
USER reader
WORKDIR /home/reader
`

var block = regexp.MustCompile("(?ms)^```(sh|go|text)\n(.*?)^```$")

// readerOf returns a program of bash that does what the reader of a document does: types the commands, saves the
// programs, runs them and compares their output with that of the document. It ends at the first difference, and at
// anything on standard error.
func readerOf(t *testing.T, document string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`set -euo pipefail
surprise() { echo "SURPRISE: $1" >&2; exit 1; }
begin=$SECONDS
compare() { # COMMAND, with the expected output in ../want
	bash -c "$1" >../got 2>../errors || { cat ../got ../errors; surprise "$1 fails"; }
	diff ../want ../got || surprise "$1 prints something else"
	[ ! -s ../errors ] || { cat ../errors; surprise "$1 writes to standard error"; }
	echo "$((SECONDS - begin)) s: $(head -1 ../want)"
}
waits() { # FILE TEXT
	for _ in $(seq 600); do ! grep -q "$2" "$1" || return 0; sleep 0.2; done
	cat "$1"; surprise "no line $2"
}
`)
	blocks := block.FindAllStringSubmatch(document, -1)
	programs := 0
	for _, m := range blocks {
		switch text := m[2]; {
		case m[1] == "go":
			programs++
			fmt.Fprintf(&b, "cat >main.go <<'END'\n%sEND\n", text)
		case m[1] == "text":
			fmt.Fprintf(&b, "cat >../want <<'END'\n%sEND\ncompare 'go run .'\n", text)
		case strings.Contains(text, "# terminal"):
			b.WriteString(terminals(t, text))
		case strings.TrimSpace(text) == "go run .": // compared with the text that follows
		default:
			b.WriteString(text)
		}
	}
	if programs < 3 {
		t.Fatalf("the document has %d programs, want at least 3: is its form another?", programs)
	}
	b.WriteString("echo END of the document after $((SECONDS - begin)) s\n")
	return b.String()
}

var terminal = regexp.MustCompile(`^(.*?) +# terminal \d+(?:; prints (.*))?$`)

// terminals returns the commands of several terminals: all but the last run until the end.
func terminals(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		m := terminal.FindStringSubmatch(line)
		switch {
		case m == nil:
			b.WriteString(line + "\n")
		case i < len(lines)-1:
			fmt.Fprintf(&b, "%s >../terminal%d 2>&1 & pids+=($!)\n", m[1], i)
			if m[2] != "" {
				fmt.Fprintf(&b, "waits ../terminal%d '%s'\n", i, m[2])
			}
		default:
			fmt.Fprintf(&b, "echo '%s' >../want\ncompare '%s'\nkill -INT \"${pids[@]}\"\nfor p in \"${pids[@]}\"; do "+
				"wait $p || { cat ../terminal*; surprise 'a server ends with an error'; }; done\n", m[2], m[1])
		}
	}
	return b.String()
}

// TestTutorial follows docs/guide/tutorial.md from its first line to its last in a container that has what the document
// names and nothing else: no network, no cache of compiled packages, another user. Modules come from the release of
// HEAD and, in place of the public proxy, from the download cache of this machine.
func TestTutorial(t *testing.T) {
	build(t) // its base
	buildFrom(t, tutorialImage, tutorialFile)
	document, err := os.ReadFile(filepath.Join(repository, "docs/guide/tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	env := func(name string) string {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	_, all, err := try(t, "run", "--rm", "--network", "none", "--volume", env("GOROOT")+":/usr/local/go:ro",
		"--volume", filepath.Join(release(t), "go")+":/proxy:ro",
		"--volume", filepath.Join(env("GOMODCACHE"), "cache/download")+":/modules:ro",
		"--env", "PATH=/usr/local/go/bin:/usr/bin:/bin", "--env", "GOPROXY=file:///proxy,file:///modules",
		"--env", "GONOSUMDB=*", "--env", "GOTOOLCHAIN=local", "--env", "GOFLAGS=-modcacherw",
		tutorialImage, "bash", "-c", readerOf(t, string(document)))
	t.Log(all)
	if err != nil || !strings.Contains(all, "END of the document") {
		t.Errorf("the tutorial cannot be followed: %v", err)
	}
}
