package worker

import (
	"maps"
	"testing"
	"time"

	"go.millstream.dev/config"
	"go.millstream.dev/worker/internal/memory"
)

func TestFromConfig(t *testing.T) {
	c, err := config.Load(config.Options{Paths: []string{}, Env: []string{
		"DASK_DISTRIBUTED__WORKER__CONNECTIONS__OUTGOING=7", "DASK_DISTRIBUTED__WORKER__CONNECTIONS__INCOMING=3",
		"DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=0.5", "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=False",
		"DASK_DISTRIBUTED__WORKER__MEMORY__MAX_SPILL=2GiB",
		"DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL=50ms",
		"DASK_DISTRIBUTED__WORKER__RESOURCES={'GPU': 2, 'MEM': 1.5}",
		"DASK_DISTRIBUTED__WORKER__BLOCKED_HANDLERS=['run']", "DASK_DISTRIBUTED__WORKER__LIFETIME__DURATION=1 hour",
		"DASK_TEMPORARY_DIRECTORY=/scratch", "DASK_SCHEDULER_ADDRESS=tcp://h:1",
		"DASK_DISTRIBUTED__WORKER__TRANSFER__MESSAGE_BYTES_LIMIT=1MB",
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	m := memory.Fractions(got.Memory).WithDefaults()
	if got.Outgoing != 7 || got.Incoming != 3 || m.Target != 0.5 || m.Spill != -1 || m.MaxSpill != 2<<30 ||
		m.Interval != 50*time.Millisecond || m.Pause != 0.8 || m.Terminate != 0.95 {
		t.Errorf("got %+v", got)
	}
	if !maps.Equal(got.Resources, map[string]float64{"GPU": 2, "MEM": 1.5}) || len(got.Blocked) != 1 ||
		got.Lifetime != time.Hour {
		t.Errorf("got %+v", got)
	}
	if got.LocalDirectory != "/scratch" || got.Scheduler != "tcp://h:1" || got.MessageBytes != 1_000_000 {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []string{"WORKER__MEMORY__PAUSE=-2", "WORKER__MEMORY__TARGET=often",
		"WORKER__CONNECTIONS__OUTGOING=-1", "WORKER__RESOURCES={'GPU': 'two'}", "WORKER__MEMORY__MAX_SPILL=lots"} {
		c, err := config.Load(config.Options{Paths: []string{}, Env: []string{"DASK_DISTRIBUTED__" + bad}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromConfig(c); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

func TestParseResources(t *testing.T) {
	got, err := ParseResources("GPU=2, MEM=10e9")
	if err != nil || !maps.Equal(got, map[string]float64{"GPU": 2, "MEM": 10e9}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"GPU", "=1", "GPU=x", "GPU=-1", "GPU=inf", "GPU=nan"} {
		if _, err := ParseResources(bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

func TestParseMemoryLimit(t *testing.T) {
	total := SystemMemory()
	if total <= 0 {
		t.Fatal("SystemMemory returned 0")
	}
	for text, want := range map[string]int64{"0": 0, "none": 0, "1 MiB": 1 << 20, "1": total, "0.5": total / 2,
		"auto": AutoMemory(1), "": AutoMemory(1), "1000 PB": total} {
		got, err := ParseMemoryLimit(text, 1)
		if err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, bad := range []string{"much", "-1", "1 XB"} {
		if _, err := ParseMemoryLimit(bad, 1); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}
