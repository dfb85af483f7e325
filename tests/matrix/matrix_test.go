// Package matrix runs one binary against many releases of UCX, and each release
// against each other.
package matrix

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/freeport"
)

// library is one libucp to load.
type library struct {
	name, path, perftest string
}

// inMakeTest are the releases that `make test` tries besides the system's: an old one
// with the former shared-memory protocol, the one that UCXX pins, the newest.
var inMakeTest = []string{"1.14.1.post2", "1.21.0", "1.22.0"}

// libraries finds what scripts/setup unpacked. A missing one is a failure: the
// matrix is the proof that one binary serves them all.
func libraries(t *testing.T) []library {
	t.Helper()
	root, err := filepath.Abs("../../.local/ucx")
	if err != nil {
		t.Fatal(err)
	}
	versions := inMakeTest
	command := "scripts/setup test"
	if os.Getenv("MILLSTREAM_UCX_MATRIX") == "all" {
		command = "scripts/setup ucx all"
		found, _ := filepath.Glob(filepath.Join(root, "1.*"))
		versions = nil
		for _, dir := range found {
			versions = append(versions, filepath.Base(dir))
		}
	}
	var libs []library
	if system, _ := filepath.Glob("/usr/lib/*-linux-gnu/libucp.so.0"); len(system) > 0 {
		libs = append(libs, library{"system", system[0], "ucx_perftest"})
	}
	for _, v := range versions {
		lib := filepath.Join(root, v, "lib", "libucp.so.0")
		if _, err := os.Stat(lib); err != nil {
			t.Fatalf("UCX %s is not set up (%v): run %s", v, err, command)
		}
		libs = append(libs, library{v, lib, filepath.Join(root, v, "bin", "ucx_perftest")})
	}
	return libs
}

func TestMatrix(t *testing.T) {
	libs := libraries(t)
	table := &strings.Builder{}
	fmt.Fprintf(table, "%-12s", "server\\client")
	for _, c := range libs {
		fmt.Fprintf(table, " %-14s", c.name)
	}
	fmt.Fprintln(table)
	for _, s := range libs {
		fmt.Fprintf(table, "%-12s", s.name)
		for _, c := range libs {
			transports, err := converse(t, s, c)
			switch {
			case err == nil:
				fmt.Fprintf(table, " %-14s", transports)
			case perftestFails(t, s, c):
				fmt.Fprintf(table, " %-14s", "UCX itself no")
				t.Logf("%s with %s: %v; that pair's ucx_perftest fails too", s.name, c.name, err)
			default:
				fmt.Fprintf(table, " %-14s", "FAILED")
				t.Errorf("%s with %s: %v; ucx_perftest works between them", s.name, c.name, err)
			}
		}
		fmt.Fprintln(table)
	}
	t.Log("\n" + table.String())
}

// converse runs the two ends and returns the transports they used.
func converse(t *testing.T, server, client library) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*talkTimeout)
	defer cancel()
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	s, sOut, sErr := startEnd(t, ctx, "server", server, socket)
	line, err := bufio.NewReader(sOut).ReadString('\n')
	if err != nil || line != "listening\n" {
		_ = s.Wait()
		return "", fmt.Errorf("server did not listen: %s", sErr)
	}
	c, cOut, cErr := startEnd(t, ctx, "client", client, socket)
	out, _ := io.ReadAll(cOut)
	if err = c.Wait(); err != nil {
		_ = s.Process.Kill()
	}
	if serr := s.Wait(); err == nil { // its output is complete from here on
		err = serr
	}
	if err != nil {
		return "", fmt.Errorf("%w: client %s server %s", err, cErr, sErr)
	}
	return shortTransports(string(out)), nil
}

// shortTransports turns "1.21.0 [sysv/memory posix/memory]" into "posix+sysv".
func shortTransports(s string) string {
	_, list, _ := strings.Cut(strings.TrimSpace(s), " [")
	seen := ""
	for l := range strings.FieldsSeq(strings.TrimSuffix(list, "]")) {
		tl, _, _ := strings.Cut(l, "/")
		if !strings.Contains(seen, tl) {
			seen += "+" + tl
		}
	}
	return strings.TrimPrefix(seen, "+")
}

func startEnd(t *testing.T, ctx context.Context, role string, lib library, socket string) (*exec.Cmd, io.Reader,
	*bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "MILLSTREAM_MATRIX_SOCKET="+socket, "MILLSTREAM_UCX_LIBRARY="+
		lib.path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close() })
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, stderr
}

// perftestFails tells whether UCX's own tool cannot connect these two either. It
// connects by worker address exchanged over TCP, as Dial does.
func perftestFails(t *testing.T, server, client library) bool {
	t.Helper()
	port := fmt.Sprint(freeport.Port(t))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	args := []string{"-t", "tag_lat", "-s", "8", "-n", "1000", "-p", port}
	run := func(lib library, extra ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, lib.perftest, append(extra, args...)...)
		if lib.name != "system" {
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(lib.path))
		}
		return cmd
	}
	s := run(server)
	if err := s.Start(); err != nil {
		t.Fatalf("ucx_perftest: %v: run scripts/setup perftest", err)
	}
	defer func() { _ = s.Process.Kill(); _ = s.Wait() }()
	for try := 0; ; try++ {
		err := run(client, "127.0.0.1").Run()
		if err == nil || try == 4 || ctx.Err() != nil {
			return err != nil
		}
		time.Sleep(200 * time.Millisecond) // the server may not listen yet
	}
}
