package comms

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/clique/native"
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

// roundsVariable names the environment variable with the number of rounds of testC. The default is short; 1000 rounds
// take a minute.
const roundsVariable = "MILLSTREAM_COMMS_ROUNDS"

// testC: four processes of a C program use every function, in several rounds, and keep nothing of the rounds.
func testC(t *testing.T, dir string) {
	rounds := 22
	if n, err := strconv.Atoi(os.Getenv(roundsVariable)); err == nil {
		rounds = n
	}
	for _, r := range ranks(t, dir, 4, fmt.Sprint(rounds)) {
		text := strings.Join(r.lines, "\n")
		if r.err != nil || !strings.HasSuffix(text, "done") || !strings.Contains(text, "backend shm+tcp") {
			t.Errorf("%s: %v\n%s", r.name, r.err, text)
			continue
		}
		var fds, threads, kib, of int
		last := r.lines[len(r.lines)-2]
		if _, err := fmt.Sscanf(last, "left %d descriptors, %d threads, %d KiB in %d rounds", &fds, &threads, &kib,
			&of); err != nil {
			t.Errorf("%s: %q: %v", r.name, last, err)
		}
		// The Go runtime keeps a few threads; one for each round would be a leak.
		if fds > 0 || threads >= of {
			t.Errorf("%s: %s", r.name, last)
		}
		// Over few rounds the heap of Go may still grow.
		if rounds >= 1000 && kib > 8<<10 {
			t.Errorf("%s: %s: want at most 8 MiB in the second half", r.name, last)
		}
		t.Logf("%s: %s", r.name, last)
	}
}

// testKill: when a process is killed, every other one gets an error that names its rank, and they form another
// communicator.
func testKill(t *testing.T, dir string) {
	for i, r := range ranks(t, dir, 4, "1", "kill") {
		text := strings.Join(r.lines, "\n")
		if i == 2 {
			if r.err == nil {
				t.Errorf("the killed rank has ended without an error: %s", text)
			}
			continue
		}
		again := fmt.Sprintf("reformed: rank %d of 3, sum 3", min(i, 2))
		if r.err != nil || !strings.Contains(text, "lost 2 node/2: ") || !strings.Contains(text, "rank 2 (node/2)") ||
			!strings.Contains(text, again) {
			t.Errorf("%s: %v\n%s", r.name, r.err, text)
		}
		t.Logf("%s: %s", r.name, text)
	}
}

// testNative: the C++ example of package native runs on the processes. When it fails on one, all get the reason.
func testNative(t *testing.T, dir string) {
	folder := t.TempDir()
	for name, text := range map[string]string{"millstream_native.h": native.Header, "sums.cpp": native.MockSource} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	library := filepath.Join(folder, "libsums.so")
	cmd := exec.Command("c++", "-shared", "-fPIC", "-O1", "-I", folder, "-o", library,
		filepath.Join(folder, "sums.cpp"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, r := range ranks(t, dir, 3, "1", "native", library) {
		if text := strings.Join(r.lines, "\n"); r.err != nil || !strings.HasSuffix(text, "done") {
			t.Errorf("%s: %v\n%s", r.name, r.err, text)
		}
	}
}
