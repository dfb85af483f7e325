package ucxbench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/device/cucount"
)

// ipc-map alone chooses what it means something for; with others it is one of many, and its
// jobs have processes of their own, which count.
func TestIPCMapPlan(t *testing.T) {
	alone := Options{Cases: []string{ipcMap}}
	if err := alone.Complete(); err != nil || !slices.Equal(alone.Settings, []string{"cuda_ipc"}) ||
		!slices.Equal(alone.Mems, []string{MemCUDA, MemPool}) {
		t.Errorf("%+v, %v", alone, err)
	}
	jobs, err := alone.jobs()
	if err != nil || len(jobs) != 4 {
		t.Errorf("%v, %v", jobs, err)
	}
	mixed := Options{Cases: []string{ipcMap, "tag-bw"}, Settings: []string{"cuda_ipc", "auto"},
		Mems: []string{MemHeap, MemPool}, Sizes: []int64{0, 1 << 20}}
	if err := mixed.Complete(); err != nil {
		t.Fatal(err)
	}
	if jobs, err = mixed.jobs(); err != nil {
		t.Fatal(err)
	}
	var groups []group
	for _, j := range jobs {
		if j.Case.Kind == Mapping && (j.Mem == MemHeap || j.Size == 0) {
			t.Errorf("%v has nothing to map", j)
		}
		if !slices.Contains(groups, j.group()) {
			groups = append(groups, j.group())
		} else if groups[len(groups)-1] != j.group() {
			t.Errorf("%v is apart from its group", j)
		}
	}
	if len(groups) != 5 { // heap, device, counted; cuda_ipc has no heap
		t.Errorf("groups %v", groups)
	}
}

// Both sides' mappings count, whichever opens the other's memory.
func TestIPCMapNeedsCounter(t *testing.T) {
	t.Setenv(cucount.DirVariable, "")
	p := startTestPair(t, "tcp", OpenArgs{Mode: "adaptive", Endpoint: EndpointLifeline, Device: 0})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := p.Run(ctx, Spec{Case: ipcMap, Size: 8, Mem: MemPool, Window: 1, Goroutines: 1})
	if err == nil || !strings.Contains(err.Error(), "this process does not count") {
		t.Errorf("%v", err)
	}
}

// Without a compiler or without a GPU the error says what is missing.
func TestIPCMapErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Options{Cases: []string{ipcMap}, Settings: []string{"tcp"}, Mems: []string{MemPool}, Sizes: []int64{1 << 20},
		Rounds: 1}
	var figures benchfmt.Figures
	if cuda.Available() != nil {
		if err := Run(ctx, testStarter(), o, &figures, nil); err == nil || !strings.Contains(err.Error(), "libcuda") {
			t.Errorf("%v", err)
		}
	}
	t.Setenv("CC", "/nowhere/cc")
	if err := Run(ctx, testStarter(), o, &figures, nil); !errors.Is(err, cucount.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if len(figures) != 0 {
		t.Errorf("%v", figures)
	}
}
