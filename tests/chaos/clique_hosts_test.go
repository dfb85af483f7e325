//go:build chaos

package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
)

// Ranks on hosts with separate names and networks use comms, and UCX if data connections are trusted, with addresses
// that the cluster has carried.
func TestCliqueTwoHosts(t *testing.T) {
	if !inside(t) {
		return
	}
	bridge(t)
	ctx := bounded(t)
	c, cl := local(t, cluster.Config{Workers: -1, Host: bridgeHost})
	tls := filepath.Join(t.TempDir(), "tls")
	if _, err := c.WriteCredentials(tls); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		hostedWorker(t, i, fmt.Sprintf("clique%d", i), c.Address(), tls, "--nthreads", "1", "--data-connections",
			[]string{"trusted", "trusted", "none", "none"}[i])
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
	if _, err := clique.Form(ctx, cl, clique.Options{Backend: clique.UCX}); err == nil ||
		!strings.Contains(err.Error(), "UCX is not available on worker tls://10.77.0.12:") {
		t.Errorf("UCX with workers that have none: %v", err)
	}
}
