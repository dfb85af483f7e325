package comms

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 5 * time.Minute

// program compiles rank.c.
func program(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "rank")
	cmd := exec.Command("cc", "-Wall", "-Wextra", "-Werror", "-O1", "-I", dir, "-o", out,
		filepath.Join("testdata", "rank.c"), "-L", dir, "-lmillstream", "-lpthread", "-Wl,-rpath,"+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// rank is a process of rank.c.
type rank struct {
	name  string
	in    io.WriteCloser
	lines []string // read after the end
	err   error
}

// ranks runs processes and passes their contacts on: each gets those of all others, in another order.
func ranks(t *testing.T, dir string, n int, args ...string) []*rank {
	t.Helper()
	path := program(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	contacts := make(chan string)
	failed := make(chan struct{}, n)
	all := make([]*rank, n)
	var reading sync.WaitGroup
	for i := range all {
		r := &rank{name: fmt.Sprintf("node/%d", i)}
		all[i] = r
		cmd := exec.CommandContext(ctx, path, append([]string{r.name, fmt.Sprint(n)}, args...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if r.in, err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			scanner := bufio.NewScanner(out)
			scanner.Buffer(nil, 1<<20)
			for scanner.Scan() {
				if text, ok := strings.CutPrefix(scanner.Text(), "contact "); ok {
					contacts <- text
				} else {
					r.lines = append(r.lines, scanner.Text())
				}
			}
			if r.err = cmd.Wait(); r.err != nil {
				failed <- struct{}{}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		reading.Wait()
		close(ended)
	}()
	var got []string
	for running := true; running; {
		select {
		case c := <-contacts:
			if got = append(got, c); len(got) < n {
				continue
			}
			for i, r := range all { // a rank that has ended is reported by its exit status
				_, _ = io.WriteString(r.in, strings.Join(slices.Concat(got[i:], got[:i]), "\n")+"\n")
			}
			got = nil
		case <-failed: // the others must not wait for its contact
			for _, r := range all {
				_ = r.in.Close()
			}
		case <-ended:
			running = false
		}
	}
	return all
}

// testC: four processes of a C program use every function, in several rounds, and keep nothing of the rounds.
func testC(t *testing.T, dir string) {
	const rounds = 22
	for _, r := range ranks(t, dir, 4, fmt.Sprint(rounds)) {
		text := strings.Join(r.lines, "\n")
		if r.err != nil || !strings.HasSuffix(text, "done") || !strings.Contains(text, "backend shm+tcp") {
			t.Errorf("%s: %v\n%s", r.name, r.err, text)
			continue
		}
		var fds, threads, of int
		last := r.lines[len(r.lines)-2]
		if _, err := fmt.Sscanf(last, "left %d descriptors, %d threads in %d rounds", &fds, &threads, &of); err != nil {
			t.Errorf("%s: %q: %v", r.name, last, err)
		}
		// The Go runtime keeps a few threads; one for each round would be a leak.
		if fds > 0 || threads >= of {
			t.Errorf("%s: %s", r.name, last)
		}
	}
}

// testKill: when a process is killed, every other one gets an error that names its rank.
func testKill(t *testing.T, dir string) {
	for i, r := range ranks(t, dir, 4, "1", "kill") {
		text := strings.Join(r.lines, "\n")
		if i == 2 {
			if r.err == nil {
				t.Errorf("the killed rank has ended without an error: %s", text)
			}
			continue
		}
		if r.err != nil || !strings.Contains(text, "lost 2 node/2: ") || !strings.Contains(text, "rank 2 (node/2)") {
			t.Errorf("%s: %v\n%s", r.name, r.err, text)
		}
	}
}
