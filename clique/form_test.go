package clique_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/ucx"
)

// check runs a round and checks its sums.
func check(t *testing.T, q *clique.Clique) {
	t.Helper()
	in := make([][]float64, q.Size())
	want := 0.0
	for i := range in {
		in[i] = []float64{float64(i + 1), 1}
		want += float64(i + 1)
	}
	out, err := total.Run(testContext(t), q, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if o[0] != want || o[1] != float64(q.Size()) {
			t.Errorf("rank %d has %v, want %v and %d", i, o, want, q.Size())
		}
	}
}

// A clique on each kind of cluster: the ranks are in order, know each other, and work.
func TestForm(t *testing.T) {
	for _, tc := range []struct {
		name    string
		cluster cluster.Config
		opts    clique.Options
		ucx     bool
	}{
		{name: "goroutines", cluster: cluster.Config{Workers: 3, Mode: cluster.Goroutines}},
		{name: "processes", cluster: cluster.Config{Workers: 3}, ucx: ucx.Available() == nil},
		{name: "processes, comm", cluster: cluster.Config{Workers: 2}, opts: clique.Options{Backend: clique.Comm}},
		{name: "processes without data connections, tcp", cluster: cluster.Config{Workers: 2, Protocol: "tcp",
			DataConnections: "none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, c := local(t, tc.cluster)
			q := form(t, c, tc.opts)
			if q.Size() != tc.cluster.Workers {
				t.Fatalf("%d ranks of %d workers", q.Size(), tc.cluster.Workers)
			}
			if got := strings.Contains(q.Backend(), "ucx"); got != tc.ucx {
				t.Errorf("backend %q", q.Backend())
			}
			if !slices.IsSorted(q.Workers()) { // one host, no GPU: the addresses decide
				t.Errorf("workers %v are not in order", q.Workers())
			}
			who, err := whoami.RunAll(testContext(t), q, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range who {
				if w[0] != q.Members()[i].Worker || w[1] != string(rune('0'+q.Size()-1)) || w[2] == "" {
					t.Errorf("rank %d says %v, want %v", i, w, q.Members()[i])
				}
			}
			check(t, q)
		})
	}
}

// Workers are named by address or name; what is not there is refused, by name.
func TestFormWorkers(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	known, err := c.Workers(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	var address, name string
	for a, w := range known {
		if address == "" {
			address = a
		} else {
			name = w.Name
		}
	}
	q := form(t, c, clique.Options{Workers: []string{name, address}, Name: "two"})
	if q.Size() != 2 || !strings.HasPrefix(q.ID(), "two-") || !slices.Contains(q.Workers(), address) {
		t.Errorf("%v has workers %v, want %s and %s", q, q.Workers(), address, name)
	}
	check(t, q)
	for _, tc := range []struct {
		workers []string
		backend clique.Backend
		want    string
	}{
		{[]string{address, "inproc://unknown"}, "",
			`no such worker: "inproc://unknown"; the cluster has inproc://`},
		{[]string{address, address}, "", "is listed twice; a worker has one rank"},
		{nil, "smoke", `backend "smoke": want "nccl", "ucx", "comm" or none`},
		{nil, clique.UCX, "UCX is not available on worker inproc://"},
		{nil, clique.NCCL, "NCCL cannot be used: worker"}, // the workers share a GPU, or have none
	} {
		_, err := clique.Form(testContext(t), c, clique.Options{Workers: tc.workers, Backend: tc.backend})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Form(%v, %q) is %v, want %q", tc.workers, tc.backend, err, tc.want)
		}
	}
	if _, err := clique.Form(testContext(t), c, clique.Options{Workers: []string{"x"}}); !errors.Is(err,
		clique.ErrNoWorker) {
		t.Errorf("an unknown worker is %v, want ErrNoWorker", err)
	}
}

func TestNoWorkers(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: -1, Mode: cluster.Goroutines})
	if _, err := clique.Form(testContext(t), c, clique.Options{}); !errors.Is(err, clique.ErrNoWorker) {
		t.Errorf("clique of no workers: got %v, want ErrNoWorker", err)
	}
}

// Forming on a running cluster, of 4 ranks in processes: the bar is 50 ms.
func BenchmarkForm4(b *testing.B) {
	_, c := local(b, cluster.Config{Workers: 4})
	for b.Loop() {
		q, err := clique.Form(b.Context(), c, clique.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := q.Dissolve(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
