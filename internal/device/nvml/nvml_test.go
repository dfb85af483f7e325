//go:build cgo

package nvml_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/nvml"
	"go.millstream.dev/internal/device/nvml/nvmltest"
)

func open(t *testing.T, words ...string) *nvml.Library {
	t.Helper()
	nvmltest.Use(t, words...)
	l, err := nvml.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestList(t *testing.T) {
	list, err := open(t).GPUs()
	if err != nil || len(list) != 8 {
		t.Fatalf("got %d GPUs, %v, want 8", len(list), err)
	}
	links := []int{12, 12, 0, -1, 6, 12, 12, 12}
	for i, got := range list {
		want := nvml.GPU{Address: fmt.Sprintf("00000000:%02X:00.0", 0x10*(i+1)), UUID: fmt.Sprint("GPU-fake-", i),
			Name: "Fake GPU", Memory: 40 << 30, NVLinks: links[i], MIGEnabled: i == 1}
		if i == 1 {
			want.MIG = []nvml.MIG{
				{UUID: "MIG-0", Name: "Fake GPU MIG 3g.20gb", Index: 0, GPUInstance: 10, Memory: 20 << 30},
				{UUID: "MIG-2", Name: "Fake GPU MIG 3g.20gb", Index: 2, GPUInstance: 12, Memory: 20 << 30},
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("GPU %d: got %+v, want %+v", i, got, want)
		}
	}
}

// A worker samples its own device, be it a GPU or an instance of one.
func TestSample(t *testing.T) {
	l := open(t)
	for _, c := range []struct {
		uuid string
		want nvml.Sample
	}{
		{"GPU-fake-0", nvml.Sample{Utilization: 0, Used: 1 << 30, Total: 40 << 30}},
		{"GPU-fake-7", nvml.Sample{Utilization: 70, Used: 8 << 30, Total: 40 << 30}},
		{"MIG-2", nvml.Sample{Utilization: -1, Used: 102 << 30, Total: 20 << 30}},
	} {
		d, err := l.ByUUID(c.uuid)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Sample(); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.uuid, got, err, c.want)
		}
	}
	if _, err := l.ByUUID("GPU-none"); err == nil || !strings.Contains(err.Error(), "find GPU-none: Not Found (6)") {
		t.Errorf("unknown UUID: got %v, want Not Found", err)
	}
}

// What a driver does not support is unknown, and what it exaggerates is bounded.
func TestOdd(t *testing.T) {
	for word, want := range map[string]nvml.Sample{
		"nomemory": {Utilization: 70, Used: -1, Total: -1},
		"wild":     {Utilization: 100, Used: 8 << 30, Total: 0},
	} {
		l := open(t, word)
		d, err := l.ByIndex(7)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Sample(); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", word, got, err, want)
		}
		list, err := l.GPUs()
		if err != nil || len(list) != 8 || list[0].Memory != 0 || len(list[1].MIG) != 2 {
			t.Errorf("%s: got %+v, %v, want 8 GPUs without memory, two instances on GPU 1", word, list, err)
		}
	}
	d, err := open(t, "gone").ByIndex(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sample(); err == nil || !strings.Contains(err.Error(), "GPU is lost") {
		t.Errorf("lost GPU: got %v, want its error", err)
	}
}

func TestLost(t *testing.T) {
	if list, err := open(t, "lost").GPUs(); err != nil || len(list) != 7 {
		t.Errorf("one lost GPU: got %d GPUs, %v, want 7", len(list), err)
	}
	for word, want := range map[string]string{"alllost": "GPU 7: nvml: find GPU 7: GPU is lost (15)",
		"count": "nvml: count GPUs: Unknown Error (999)"} {
		if _, err := open(t, word).GPUs(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", word, err, want)
		}
	}
}

func TestUnavailable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libnone.so")
	for name, c := range map[string]struct{ library, word, want string }{
		"missing":    {missing, "", "libnone.so"},
		"other":      {"libm.so.6", "", "libm.so.6 lacks the function nvmlInit_v2"},
		"not loaded": {nvmltest.Use(t), "init", "nvmlInit: Driver Not Loaded (9)"},
	} {
		t.Setenv(nvml.Variable, c.library)
		t.Setenv("FAKE_NVML", c.word)
		l, err := nvml.Open()
		if l != nil || !errors.Is(err, nvml.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want ErrUnavailable and %q", name, err, c.want)
		}
	}
}

// Devices outlive their library without harm: a worker may sample while it closes.
func TestClosed(t *testing.T) {
	nvmltest.Use(t)
	l, err := nvml.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.ByIndex(0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := d.Sample(); err == nil || !strings.Contains(err.Error(), "Uninitialized") {
		t.Errorf("sample after Close: got %v, want Uninitialized", err)
	}
}
