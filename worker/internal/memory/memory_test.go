package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
)

// rig is a Manager whose usage the test sets.
type rig struct {
	*Manager
	used     atomic.Int64
	paused   []bool
	exceeded []int64
}

func newRig(t *testing.T, limit int64, change func(*Config)) *rig {
	t.Helper()
	r := &rig{}
	cfg := Config{Logger: slog.New(slog.DiscardHandler), Limit: limit, Directory: t.TempDir(), Records: 100,
		OwnProcess: true,
		Fractions:  Fractions{Usage: r.used.Load, Interval: time.Millisecond, Compression: "false"}.WithDefaults(),
		SetPaused:  func(paused bool, _ int64) { r.paused = append(r.paused, paused) },
		Exceeded:   func(used int64) { r.exceeded = append(r.exceeded, used) },
	}
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	r.Manager = m
	return r
}

// child is a process that a test controls.
type child struct {
	rss     int64
	trimmed int
	kills   bool
	killed  []int64
}

func (c *child) RSS() int64           { return c.rss }
func (c *child) Trim(context.Context) { c.trimmed++ }
func (c *child) KillForMemory(used int64) bool {
	c.killed = append(c.killed, used)
	return c.kills
}

func TestDefaults(t *testing.T) {
	f := Fractions{}.WithDefaults()
	if f.Target != 0.6 || f.Spill != 0.7 || f.Pause != 0.8 || f.Terminate != 0.95 || f.Transfer != 0.1 ||
		f.Compression != "auto" ||
		f.Interval != 100*time.Millisecond || f.Usage() <= 0 {
		t.Errorf("got %+v", f)
	}
	own := Fractions{Target: -1, Spill: 0.5, Pause: -1, Terminate: 0.9, Transfer: 0.2, Compression: "zstd",
		Interval: time.Second}
	got := own.WithDefaults()
	got.Usage = nil
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", own) {
		t.Errorf("got %+v, want %+v", got, own)
	}
}

// Actions at each fraction of the limit.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		used             int64
		ownProcess       bool
		terminate        float64
		paused, exceeded bool
	}{
		{used: 500, ownProcess: true},
		{used: 800, ownProcess: true},
		{used: 801, ownProcess: true, paused: true},
		{used: 950, ownProcess: true, paused: true},
		{used: 951, ownProcess: true, paused: true, exceeded: true},
		{used: 951, paused: true},
		{used: 5000, ownProcess: true, terminate: -1, paused: true},
	} {
		r := newRig(t, 1000, func(cfg *Config) {
			cfg.OwnProcess = c.ownProcess
			if c.terminate != 0 {
				cfg.Fractions.Terminate = c.terminate
			}
		})
		r.used.Store(c.used)
		r.check(t.Context())
		if len(r.paused) != 1 || r.paused[0] != c.paused || (len(r.exceeded) > 0) != c.exceeded {
			t.Errorf("%+v: paused %v, exceeded %v", c, r.paused, r.exceeded)
		}
		if c.exceeded && r.exceeded[0] != c.used {
			t.Errorf("got %d reported, want %d", r.exceeded[0], c.used)
		}
	}
}

// The memory of a child counts, and a child that uses most of it is killed in place of the worker.
func TestChild(t *testing.T) {
	for _, kills := range []bool{true, false} {
		r := newRig(t, 1000, nil)
		c := &child{rss: 900, kills: kills}
		r.SetChild(c)
		r.used.Store(100)
		if r.Usage() != 1000 {
			t.Fatalf("usage %d, want 1000", r.Usage())
		}
		r.check(t.Context())
		if len(c.killed) != 1 || c.killed[0] != 1000 || c.trimmed == 0 || (len(r.exceeded) == 0) != kills {
			t.Errorf("kills %v: killed %v, trimmed %d times, exceeded %v", kills, c.killed, c.trimmed, r.exceeded)
		}
	}
}

// fill stores n results of a size each.
func (r *rig) fill(n, size int) {
	for i := range n {
		r.data.Put(task.NewKey(fmt.Sprint("k-", i)), task.NewValue(bytes.Repeat([]byte{byte(i)}, size)), int64(size))
	}
}

// Above the spill threshold data is spilled until the process is below the target.
func TestSpill(t *testing.T) {
	r := newRig(t, 100<<20, func(cfg *Config) {
		cfg.Fractions.Target = 0.6
		cfg.Fractions.Usage = nil
	})
	const each = 1 << 20
	base := int64(25 << 20)
	r.Manager.cfg.Fractions.Usage = func() int64 { return base + r.data.Memory() }
	r.fill(50, each)
	r.check(t.Context())
	used := r.Usage()
	if used > 60<<20 || used < 50<<20 {
		t.Errorf("%d MiB are in use after the spill, want about 60", used>>20)
	}
	if s := r.data.Spilled(); s.Memory < 15<<20 {
		t.Errorf("spilled %+v", s)
	}
	read, wrote := r.DiskCounts()
	if wrote.Count == 0 || wrote.Bytes < 15<<20 || wrote.Time <= 0 || read.Count != 0 {
		t.Errorf("counted %+v read and %+v written", read, wrote)
	}
	for i := range 50 {
		e := r.data.Hold(task.NewKey(fmt.Sprint("k-", i)))
		v, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		s, err := v.Encoded()
		if err != nil || s.Size() < each {
			t.Fatalf("result %d: %v, %v", i, s, err)
		}
		r.data.Release(e)
	}
	read, _ = r.DiskCounts()
	records := r.DiskRecords()
	if read.Count == 0 || int64(len(records)) != min(100, read.Count+wrote.Count) || !records[0].Write {
		t.Errorf("%+v read, %d records", read, len(records))
	}
}

// A spill that frees no memory ends: the memory may belong to user code.
func TestSpillInVain(t *testing.T) {
	r := newRig(t, 10<<20, nil)
	r.used.Store(9 << 20)
	r.fill(3, 1<<20)
	r.check(t.Context())
	if s := r.data.Spilled(); s.Keys != 3 || !r.paused[0] {
		t.Errorf("spilled %+v, paused %v", s, r.paused)
	}
}

// Collections take at most a tenth of the time.
func TestFreeIsRare(t *testing.T) {
	r := newRig(t, 1000, nil)
	c := &child{}
	r.SetChild(c)
	r.free(t.Context(), 900)
	if c.trimmed != 1 || r.tookGC <= 0 {
		t.Fatalf("trimmed %d times, took %v", c.trimmed, r.tookGC)
	}
	r.tookGC = time.Hour
	if got := r.free(t.Context(), 900); got != 900 || c.trimmed != 1 {
		t.Errorf("freed again at once: %d, trimmed %d times", got, c.trimmed)
	}
	r.lastGC = r.lastGC.Add(-11 * time.Hour)
	r.used.Store(5)
	if got := r.free(t.Context(), 900); got != 5 || c.trimmed != 2 {
		t.Errorf("after a while: %d, trimmed %d times", got, c.trimmed)
	}
	r.lastGC = r.lastGC.Add(-11 * time.Hour)
	r.gc.Lock()
	if got := r.free(t.Context(), 900); got != 900 || c.trimmed != 2 {
		t.Errorf("while another frees: %d, trimmed %d times", got, c.trimmed)
	}
	r.gc.Unlock()
}

// Watch sets the memory limit of the Go runtime while it runs.
func TestWatch(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	r := newRig(t, 1<<40, nil)
	looked := make(chan struct{}, 1)
	r.Manager.cfg.SetPaused = func(bool, int64) {
		select {
		case looked <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Watch(ctx) }()
	<-looked
	if got, want := debug.SetMemoryLimit(-1), 0.7*float64(int64(1)<<40); math.Abs(float64(got)-want) > 1 {
		t.Errorf("memory limit of the runtime: got %d, want %.0f", got, want)
	}
	cancel()
	<-done
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("memory limit afterwards: got %d, want %d", got, before)
	}
	newRig(t, 0, nil).Watch(t.Context()) // returns at once
}

func TestRoom(t *testing.T) {
	r := newRig(t, 100<<20, nil)
	if !r.Limited() || newRig(t, 0, nil).Limited() {
		t.Error("Limited: got the wrong value")
	}
	r.fill(2, 3<<20)
	var inputs []*store.Entry
	for i := range 2 {
		inputs = append(inputs, r.data.Hold(task.NewKey(fmt.Sprint("k-", i))))
	}
	defer r.data.ReleaseAll(inputs)
	for _, c := range []struct {
		function string
		inputs   []*store.Entry
		want     int64
	}{{"f", nil, 0}, {"f", inputs, 6 << 20}, {"f", inputs[:1], 3 << 20}} {
		n, err := r.Reserve(t.Context(), c.function, c.inputs)
		if err != nil || n != c.want {
			t.Errorf("%s with %d inputs: reserved %d, %v; want %d", c.function, len(c.inputs), n, err, c.want)
		}
		r.Unreserve(n)
	}
	if err := r.Keep(t.Context(), task.NewKey("k"), "f", 8<<20); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Reserve(t.Context(), "f", inputs); err != nil || n != 8<<20 {
		t.Errorf("got %d, %v reserved, want the previous size", n, err)
	} else {
		r.Unreserve(n)
	}
}

// Without room for a result its task is rescheduled, unless the task has ended.
func TestKeepWithoutRoom(t *testing.T) {
	r := newRig(t, 4<<20, func(cfg *Config) { cfg.Fractions.MaxSpill = 1 })
	r.fill(3, 1<<20)
	if err := r.Keep(t.Context(), task.NewKey("k"), "f", 1<<20); !errors.Is(err, task.ErrReschedule) {
		t.Errorf("got %v, want ErrReschedule", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Keep(ctx, task.NewKey("k"), "f", 1<<20); errors.Is(err, task.ErrReschedule) {
		t.Errorf("canceled task: got %v", err)
	}
	if !r.data.Full() {
		t.Error("Full: got false, want true")
	}
	r.check(t.Context())
	if len(r.paused) != 1 || !r.paused[0] {
		t.Errorf("paused with a full disk: got %v", r.paused)
	}
}

// A task with a large result waits while memory is short, at most until its context ends.
func TestThrottle(t *testing.T) {
	r := newRig(t, 10<<20, nil)
	looks, short := 0, 4
	ctx, cancel := context.WithCancel(t.Context())
	r.Manager.cfg.Fractions.Usage = func() int64 {
		if looks++; looks > short {
			return 0
		}
		return 9 << 20
	}
	if r.throttle(ctx, largeResult-1); looks != 0 {
		t.Errorf("small result: got %d measurements, want 0", looks)
	}
	if r.throttle(ctx, largeResult); looks <= short {
		t.Errorf("got %d measurements, want more than %d", looks, short)
	}
	looks, short = 0, 1<<30
	r.Manager.cfg.Fractions.Usage = func() int64 {
		if looks++; looks == 3 {
			cancel()
		}
		return 9 << 20
	}
	if r.throttle(ctx, largeResult); looks < 3 || looks > 6 {
		t.Errorf("it ends after %d looks, its context after 3", looks)
	}
}

func TestMakeRoom(t *testing.T) {
	r := newRig(t, 4<<20, func(cfg *Config) { cfg.Fractions.MaxSpill = 1 })
	values := []*task.Value{task.NewValue(1), task.NewValue(2)}
	if err := r.MakeRoom(t.Context(), values, []state.Stored{{NBytes: 1 << 20}, {NBytes: 1 << 20}}); err != nil {
		t.Error(err)
	}
	r.fill(3, 1<<20)
	huge := []state.Stored{{NBytes: 1 << 20}, {NBytes: 1 << 40}}
	if err := r.MakeRoom(t.Context(), values, huge); err == nil {
		t.Error("there is room for a terabyte")
	}
	if err := newRig(t, 0, nil).MakeRoom(t.Context(), values, huge); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// At the end nothing is left in the folder.
func TestClose(t *testing.T) {
	r := newRig(t, 10<<20, nil)
	r.fill(3, 1<<20)
	r.data.Evict()
	if _, err := os.Stat(r.Directory()); err != nil {
		t.Fatal(err)
	}
	r.Manager.Close()
	if _, err := os.Stat(r.Directory()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", r.Directory(), err)
	}
	if _, err := New(Config{Directory: "/proc/none", Logger: slog.Default()}); err == nil {
		t.Error("a folder that cannot be made is taken")
	}
}

// What a peer sent is kept also where there is no room for it, and that is logged.
func TestAdmit(t *testing.T) {
	var text strings.Builder
	r := newRig(t, 4<<20, func(cfg *Config) {
		cfg.Fractions.MaxSpill = 1
		cfg.Logger = slog.New(slog.NewTextHandler(&text, nil))
	})
	values := []*task.Value{task.NewValue(1)}
	if r.Admit(t.Context(), "tcp://a:1", values, []state.Stored{{NBytes: 1 << 20}}); strings.Contains(text.String(),
		"tcp://a:1") {
		t.Errorf("there is room: %s", text.String())
	}
	r.fill(3, 1<<20)
	if r.Admit(t.Context(), "tcp://a:1", values, []state.Stored{{NBytes: 1 << 20}}); !strings.Contains(text.String(),
		"peer=tcp://a:1") {
		t.Errorf("there is no room, and the log has: %s", text.String())
	}
}
