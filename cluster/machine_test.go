package cluster

import (
	"os"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
)

// Layout returns the results of nprocesses_nthreads in Dask.
func TestLayout(t *testing.T) {
	for cpus, want := range map[int][2]int{0: {1, 1}, 1: {1, 1}, 2: {2, 1}, 4: {4, 1}, 6: {3, 2}, 7: {7, 1}, 8: {4, 2},
		12: {4, 3}, 16: {4, 4}, 32: {8, 4}, 40: {8, 5}, 64: {8, 8}, 80: {10, 8}} {
		if w, th := Layout(cpus); w != want[0] || th != want[1] {
			t.Errorf("%d processors: %d workers with %d threads, want %v", cpus, w, th, want)
		}
	}
}

func TestResidentMemory(t *testing.T) {
	want, err := leak.RSS()
	if err != nil {
		t.Fatal(err)
	}
	got, err := residentMemory(os.Getpid())
	if err != nil || got < want/2 || got > want*2 {
		t.Errorf("%d bytes, %v; want about %d", got, err, want)
	}
	if _, err := residentMemory(1 << 30); err == nil {
		t.Error("memory of a process that does not exist: got nil, want an error")
	}
}
