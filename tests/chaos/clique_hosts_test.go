//go:build chaos

package chaos

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
)

// namedHost starts a worker on a host of its own, with its own network and name.
func namedHost(t *testing.T, number int, address, tls, lanes string) host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	name := fmt.Sprintf("clique%d", number)
	c := program(t, name, func(cmd *exec.Cmd) {
		script := `read _ && hostname ` + name + ` && exec "$0" "$@"`
		args := []string{"sh", "-c", script, self, "worker", address, "--tls-dir", tls, "--name", name,
			"--nthreads", "1", "--no-nanny", "--no-dashboard", "--lanes", lanes, "--local-directory", t.TempDir()}
		cmd.Path, cmd.Args, cmd.Stdin = "/bin/sh", args, r
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS
	})
	r.Close()
	h := plug(t, number, c.cmd.Process.Pid)
	if _, err := io.WriteString(w, "\n"); err != nil {
		t.Fatal(err)
	}
	return h
}

// Ranks on hosts with names and networks of their own: by comms, and by UCX where lanes are trusted, whose addresses
// the cluster has carried.
func TestCliqueTwoHosts(t *testing.T) {
	if !inside(t) {
		return
	}
	bridge(t)
	ctx := bounded(t)
	c, cl := local(t, cluster.Options{Workers: -1, Host: bridgeHost})
	tls := filepath.Join(t.TempDir(), "tls")
	if _, err := c.WriteCredentials(tls); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		namedHost(t, i, c.Address(), tls, []string{"trusted", "trusted", "none", "none"}[i])
	}
	await(t, "four workers are there", func() bool { return registered(t, c, "") == 4 })
	for _, tc := range []struct {
		workers []string
		backend clique.Backend
		want    string
	}{
		{[]string{"clique0", "clique1"}, clique.UCX, "ucx"},
		{[]string{"clique0", "clique1"}, clique.Comm, "tls"},
		{[]string{"clique0", "clique1", "clique2", "clique3"}, clique.Auto, "tls"},
	} {
		q, err := clique.Form(ctx, cl, clique.Options{Workers: tc.workers, Backend: tc.backend, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range q.Members() {
			names = append(names, m.HostName)
		}
		if strings.Join(names, " ") != strings.Join(tc.workers, " ") { // addresses are in the order of numbers
			t.Errorf("hosts %v, want %v", names, tc.workers)
		}
		if !strings.Contains(q.Backend(), tc.want) {
			t.Errorf("%v goes over %s, want %s", tc.workers, q.Backend(), tc.want)
		}
		if _, err := collectives.RunAll(ctx, q, []uint64{77, 200}); err != nil {
			t.Errorf("%v over %s: %v", tc.workers, q.Backend(), err)
		}
		if err := q.Dissolve(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := clique.Form(ctx, cl, clique.Options{Backend: clique.UCX}); err == nil || !strings.Contains(err.Error(), "no UCX at worker tls://10.77.0.12:") {
		t.Errorf("UCX with workers that have none: %v", err)
	}
}
