package worker

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.millstream.dev/wire/msgpack"
)

// usage is what the process and the machine do, sampled for heartbeats and for Dask's
// get_monitor_info. Any goroutine may use it.
type usage struct {
	memory func() int64

	mu      sync.Mutex // owns what follows
	last    sample
	history []sample // the last ones, a second apart at most
	count   int
}

// sample is one look.
type sample struct {
	at                  time.Time
	cpu                 float64 // per cent of one processor since the last look
	cpuTime             time.Duration
	memory              int64
	fds                 int
	netRead, netWrite   float64 // bytes per second of the machine
	diskRead, diskWrite float64
	netIn, netOut       int64 // counters
	diskIn, diskOut     int64
}

// historyLength is Dask's default of distributed.admin.system-monitor.log-length.
const historyLength = 7200

func newUsage(memory func() int64) *usage {
	if memory == nil {
		memory = RSS
	}
	u := &usage{memory: memory}
	u.update()
	return u
}

// RSS is the resident memory of the process in bytes, as the system says.
func RSS() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.Sys - m.HeapReleased)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// update looks again, at most ten times a second.
func (u *usage) update() sample {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.count > 0 && now.Sub(u.last.at) < 100*time.Millisecond {
		u.last.memory = u.memory()
		return u.last
	}
	s := sample{at: now, memory: u.memory(), cpuTime: processorTime(), fds: openFiles()}
	s.netIn, s.netOut = networkBytes()
	s.diskIn, s.diskOut = diskBytes()
	if u.count > 0 {
		d := now.Sub(u.last.at).Seconds()
		s.cpu = 100 * (s.cpuTime - u.last.cpuTime).Seconds() / d
		s.netRead, s.netWrite = rate(s.netIn, u.last.netIn, d), rate(s.netOut, u.last.netOut, d)
		s.diskRead, s.diskWrite = rate(s.diskIn, u.last.diskIn, d), rate(s.diskOut, u.last.diskOut, d)
	}
	u.count++
	u.last = s
	if len(u.history) < historyLength {
		u.history = append(u.history, s)
	} else {
		copy(u.history, u.history[1:])
		u.history[len(u.history)-1] = s
	}
	return s
}

func rate(now, before int64, seconds float64) float64 {
	return max(0, float64(now-before)/seconds)
}

// recent is the part of a heartbeat's metrics that the monitor of Dask fills.
func (u *usage) recent() msgpack.Map {
	s := u.update()
	return msgpack.Map{
		{Key: "cpu", Value: math.Round(s.cpu*10) / 10}, // as psutil has it
		{Key: "memory", Value: s.memory},
		{Key: "time", Value: unix(s.at)},
		{Key: "host_net_io", Value: msgpack.MapOf("read_bps", s.netRead, "write_bps", s.netWrite)},
		{Key: "host_disk_io", Value: msgpack.MapOf("read_bps", s.diskRead, "write_bps", s.diskWrite)},
		{Key: "num_fds", Value: s.fds},
	}
}

// info is the answer to get_monitor_info: the last sample, or all since one.
func (u *usage) info(recent bool, start int) msgpack.Map {
	if recent {
		m := msgpack.Map{}
		s := u.update()
		for _, c := range columns {
			m = append(m, msgpack.Pair{Key: c.name, Value: c.of(&s)})
		}
		return msgpack.MapOf("range_query", m, "count", u.seen(), "last_time", unix(s.at))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	skip := min(max(0, start-(u.count-len(u.history))), len(u.history))
	list := u.history[skip:]
	m := msgpack.Map{}
	for _, c := range columns {
		values := make([]any, len(list))
		for i := range list {
			values[i] = c.of(&list[i])
		}
		m = append(m, msgpack.Pair{Key: c.name, Value: values})
	}
	return msgpack.MapOf("range_query", m, "count", u.count, "last_time", unix(u.last.at))
}

func (u *usage) seen() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

var columns = []struct {
	name string
	of   func(*sample) any
}{
	{"cpu", func(s *sample) any { return s.cpu }},
	{"memory", func(s *sample) any { return s.memory }},
	{"time", func(s *sample) any { return unix(s.at) }},
	{"host_net_io.read_bps", func(s *sample) any { return s.netRead }},
	{"host_net_io.write_bps", func(s *sample) any { return s.netWrite }},
	{"host_disk_io.read_bps", func(s *sample) any { return s.diskRead }},
	{"host_disk_io.write_bps", func(s *sample) any { return s.diskWrite }},
	{"num_fds", func(s *sample) any { return s.fds }},
}

func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func openFiles() int {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return max(0, len(names)-1) // without the folder itself
}

// networkBytes sums the machine's interfaces, the loopback too, as psutil does.
func networkBytes() (in, out int64) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		_, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) < 9 {
			continue
		}
		a, _ := strconv.ParseInt(f[0], 10, 64)
		b, _ := strconv.ParseInt(f[8], 10, 64)
		in, out = in+a, out+b
	}
	return in, out
}

// diskBytes sums whole disks: partitions would count twice.
func diskBytes() (in, out int64) {
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0, 0
	}
	const sector = 512
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 10 || !wholeDisk(f[2]) {
			continue
		}
		a, _ := strconv.ParseInt(f[5], 10, 64)
		b, _ := strconv.ParseInt(f[9], 10, 64)
		in, out = in+a*sector, out+b*sector
	}
	return in, out
}

func wholeDisk(name string) bool {
	if strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "dm-") {
		return false
	}
	if strings.HasPrefix(name, "nvme") || strings.HasPrefix(name, "mmcblk") {
		return !strings.Contains(strings.TrimLeft(name[4:], "blk0123456789"), "p")
	}
	last := name[len(name)-1]
	return last < '0' || last > '9'
}
