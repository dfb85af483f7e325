package monitor

import (
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

func TestWholeDisk(t *testing.T) {
	for name, want := range map[string]bool{
		"sda": true, "sda1": false, "vdb": true, "nvme0n1": true, "nvme0n1p2": false, "loop0": false, "dm-0": false,
		"mmcblk0": true, "mmcblk0p1": false, "ram3": false,
	} {
		if got := wholeDisk(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestSumInterfaces(t *testing.T) {
	const text = `Inter-|   Receive                          |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:  100       2    0    0    0     0          0         0    100       2    0    0    0     0       0          0
  eth0: 2000       9    0    0    0     0          0         0     30       5    0    0    0     0       0          0
broken: 1 2
`
	if in, out := sumInterfaces(text); in != 2100 || out != 130 {
		t.Errorf("got %d in and %d out, want 2100 and 130", in, out)
	}
}

func TestSumDisks(t *testing.T) {
	const text = `   8       0 sda 10 0 4 0 20 0 6 0 0 0 0
   8       1 sda1 10 0 4 0 20 0 6 0 0 0 0
   7       0 loop0 10 0 4 0 20 0 6 0 0 0 0
 259       0 nvme0n1 1 0 1 0 1 0 2 0 0 0 0
broken
`
	if in, out := sumDisks(text); in != 5*512 || out != 8*512 {
		t.Errorf("got %d in and %d out, want %d and %d", in, out, 5*512, 8*512)
	}
}

func column(t *testing.T, info msgpack.Map, name string) any {
	t.Helper()
	q, _ := info.Get("range_query")
	m, _ := q.(msgpack.Map)
	v, ok := m.Get(name)
	if !ok {
		t.Fatalf("no %s in %v", name, info)
	}
	return v
}

// Rates are the increases of the counters per second since the previous sample; the memory is always current.
func TestSamples(t *testing.T) {
	memory := int64(1000)
	m := New(func() int64 { return memory }, nil)
	memory = 2000
	m.last.at = time.Now().Add(time.Hour)
	m.Update() // too soon for a sample
	if m.samples() != 1 || m.last.memory != 2000 {
		t.Fatalf("%d samples, memory %d; want 1 and 2000", m.samples(), m.last.memory)
	}
	m.last.at = time.Now().Add(-2 * time.Second)
	m.last.cpuTime -= time.Second
	m.last.netIn -= 4096
	m.last.diskOut += 1 << 40 // a counter that was reset
	m.Update()
	s := m.last
	if m.samples() != 2 || s.cpu < 40 || s.cpu > 1000 || s.netRead < 1000 || s.diskWrite != 0 {
		t.Errorf("%d samples, the last %+v", m.samples(), s)
	}
	recent := m.Recent()
	for _, name := range []string{"cpu", "memory", "time", "host_net_io", "host_disk_io", "num_fds"} {
		if !recent.Has(name) {
			t.Errorf("no %s in %v", name, recent)
		}
	}
}

func TestInfo(t *testing.T) {
	m := New(func() int64 { return 7 }, nil)
	for range 3 {
		m.last.at = m.last.at.Add(-time.Second)
		m.Update()
	}
	for start, want := range map[int]int{0: 4, 1: 3, 3: 1, 4: 0, 1_000_000: 0, -5: 4} {
		info := m.Info(false, start)
		if got := len(column(t, info, "memory").([]any)); got != want {
			t.Errorf("since %d: got %d samples, want %d", start, got, want)
		}
		if n, _ := info.Get("count"); n != 4 {
			t.Errorf("count %v, want 4", n)
		}
	}
	if got := column(t, m.Info(true, 0), "memory"); got != int64(7) {
		t.Errorf("memory of the last sample: got %v, want 7", got)
	}
}

// The history is bounded; the numbers of samples continue.
func TestHistory(t *testing.T) {
	m := New(func() int64 { return 7 }, nil)
	for len(m.history) < historyLength {
		m.history = append(m.history, sample{memory: 1})
		m.count++
	}
	m.last.at = m.last.at.Add(-time.Second)
	m.Update()
	if len(m.history) != historyLength || m.history[historyLength-1].memory != 7 {
		t.Fatalf("got %d samples, the last %+v", len(m.history), m.history[len(m.history)-1])
	}
	if got := len(column(t, m.Info(false, m.count-2), "memory").([]any)); got != 2 {
		t.Errorf("since the last but one: got %d samples, want 2", got)
	}
}

func TestRSS(t *testing.T) {
	m := New(nil, nil)
	if s := m.update(); s.memory < 1<<20 || s.fds <= 0 || RSS() < 1<<20 {
		t.Errorf("sample %+v, RSS %d", s, RSS())
	}
}
