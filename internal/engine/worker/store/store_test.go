package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func key(i int) task.Key { return task.NewKey(fmt.Sprintf("x-%d", i)) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(cfg.Dir)
		if err != nil || len(left) > 0 {
			t.Errorf("got files %v, %v left, want none", left, err)
		}
	})
	return s
}

// get reads a result as bytes.
func get(t *testing.T, s *Store, k task.Key) []byte {
	t.Helper()
	e := s.Hold(k)
	if e == nil {
		t.Fatalf("got no %v", k)
	}
	defer s.Release(e)
	v, err := e.Open()
	if err != nil {
		t.Fatal(err)
	}
	b, err := task.As[[]byte](v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// room waits until the spiller has nothing to do.
func room(t *testing.T, s *Store, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.MakeRoom(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// quiesce waits until all results that can be spilled are on disk, and the spiller is idle.
func quiesce(t interface{ Fatal(...any) }, s *Store) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.MakeRoom(ctx, 1<<50); err != nil {
		t.Fatal(err)
	}
}

func TestMemoryOnly(t *testing.T) {
	s := open(t, Config{})
	for i := range 100 {
		s.Put(key(i), task.NewValue([]byte{byte(i)}), 1)
	}
	if s.Memory() != 100 || s.Len() != 100 || len(s.Keys()) != 100 || !s.Has(key(7)) || s.Has(key(100)) {
		t.Errorf("%d bytes, %d keys", s.Memory(), s.Len())
	}
	if got := get(t, s, key(42)); got[0] != 42 {
		t.Errorf("got %v", got)
	}
	s.Put(key(42), task.NewValue([]byte{43}), 10)
	if got := get(t, s, key(42)); got[0] != 43 || s.Memory() != 109 {
		t.Errorf("replaced: %v, %d bytes", got, s.Memory())
	}
	e := s.Hold(key(42))
	s.Delete(key(42))
	s.Delete(key(42))
	if s.Hold(key(42)) != nil || s.Memory() != 109 {
		t.Error("deleted result: got it from Hold")
	}
	if v, err := e.Open(); err != nil || v == nil || e.Key() != key(42) || e.NBytes() != 10 {
		t.Errorf("%v %v", v, err)
	}
	s.ReleaseAll([]*Entry{e})
	if s.Memory() != 99 {
		t.Errorf("got %d bytes left, want 0", s.Memory())
	}
}

func TestSpill(t *testing.T) {
	for _, compression := range []string{"", "auto", "zstd"} {
		t.Run("compression="+compression, func(t *testing.T) {
			var writes, reads atomic.Int64
			const size, n = 100 << 10, 40
			s := open(t, Config{Target: 10 * size, Compression: compression, OnDisk: func(tr Transfer) {
				if tr.Stop.Before(tr.Start) || tr.Disk == 0 || tr.NBytes != size {
					t.Errorf("%+v", tr)
				}
				if tr.Write {
					writes.Add(1)
				} else {
					reads.Add(1)
				}
			}})
			want := make([][]byte, n)
			for i := range want {
				want[i] = append(random(size/2), repeated(size/2)...)
				want[i][0] = byte(i)
				room(t, s, size)
				if m := s.Memory(); m > 9*size {
					t.Fatalf("%d bytes in memory after MakeRoom", m)
				}
				s.Put(key(i), task.NewValue(want[i]), size)
			}
			sp := s.Spilled()
			if sp.Keys < n-10 || sp.Memory != int64(sp.Keys)*size || sp.Disk == 0 || s.Memory() > 10*size {
				t.Errorf("%+v, %d in memory", sp, s.Memory())
			}
			for i := range want {
				if !bytes.Equal(get(t, s, key(i)), want[i]) {
					t.Fatalf("%d differs", i)
				}
				room(t, s, 0)
			}
			if reads.Load() == 0 {
				t.Error("got no reads")
			}
			// Every result has been on disk: it need not be written again.
			before := writes.Load()
			for range 3 {
				for i := range want {
					get(t, s, key(i))
				}
				room(t, s, 0)
			}
			if got := writes.Load(); got > n || got < before {
				t.Errorf("got %d files for %d results", got, n)
			}
			for i := range want {
				s.Delete(key(i))
			}
			quiesce(t, s)
			if sp := s.Spilled(); sp != (Spilled{}) || s.Memory() != 0 || s.Len() != 0 {
				t.Errorf("left: %+v, %d bytes, %d keys", sp, s.Memory(), s.Len())
			}
		})
	}
}

// TestOldestFirst: the last used results stay, and large results are spilled before small ones.
func TestOldestFirst(t *testing.T) {
	s := open(t, Config{})
	for i := range 4 {
		s.Put(key(i), task.NewValue(random(20<<10)), 20<<10)
	}
	s.Put(key(9), task.NewValue(random(10)), 10)
	get(t, s, key(0))
	held := s.Hold(key(1))
	resident := func(i int) bool { return s.entries.Get(key(i)).value != nil }
	if n := s.Evict(); n != 20<<10 || resident(2) {
		t.Errorf("got %d bytes evicted, want those of 2", n)
	}
	s.Evict()
	if resident(3) || !resident(0) || !resident(1) {
		t.Error("3 not evicted next")
	}
	s.Evict()
	if resident(0) || !resident(9) {
		t.Error("0 not evicted next; 1 is held")
	}
	if n := s.Evict(); n != 10 {
		t.Errorf("small result: got %d", n)
	}
	if n := s.Evict(); n != 0 {
		t.Errorf("nothing left to evict: got %d", n)
	}
	s.Release(held)
	if n := s.Evict(); n != 20<<10 || s.Memory() != 0 {
		t.Errorf("released result: got %d, %d in memory", n, s.Memory())
	}
}

func TestUnspillable(t *testing.T) {
	var log bytes.Buffer
	s := open(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.PutPinned(key(0), task.NewValue(random(50<<10)), 50<<10)
	s.Put(key(1), task.NewValue(make(chan int)), 50<<10)
	s.Put(key(2), task.NewValue(random(50<<10)), 50<<10)
	if n := s.Evict(); n != 50<<10 || s.entries.Get(key(2)).value != nil {
		t.Errorf("evicted %d", n)
	}
	if !strings.Contains(log.String(), "x-1") || strings.Contains(log.String(), "x-0") {
		t.Errorf("got log %q", log.String())
	}
	if n := s.Evict(); n != 0 || s.Err() != nil {
		t.Errorf("evicted %d: %v", n, s.Err())
	}
}

// fullDisk makes every file of a store one on a device without space.
func fullDisk(s *Store) {
	s.create = func(string) (*os.File, error) { return os.OpenFile("/dev/full", os.O_WRONLY, 0) }
}

// TestDiskFull: the error names the fix, the data stays in memory, and producers that would exceed the memory get the
// error. When there is space again, spilling continues.
func TestDiskFull(t *testing.T) {
	const size = 100 << 10
	s := open(t, Config{Target: 3 * size, Ceiling: 5 * size})
	good := s.create
	fullDisk(s)
	var err error
	for i := range 10 {
		if err = s.MakeRoom(context.Background(), size); err != nil {
			break
		}
		s.Put(key(i), task.NewValue(random(size)), size)
	}
	var spill *SpillError
	if !errors.As(err, &spill) || !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), "stays in memory") || !strings.Contains(err.Error(), "--local-directory") {
		t.Fatalf("got error %v", err)
	}
	if s.Len() != 5 || s.Memory() != 5*size || s.Spilled() != (Spilled{}) || !errors.Is(s.Err(), syscall.ENOSPC) {
		t.Errorf("%d results, %d bytes, %+v", s.Len(), s.Memory(), s.Spilled())
	}
	for i := range 5 {
		if !bytes.Equal(get(t, s, key(i)), random(size)) {
			t.Errorf("got other bytes of %d", i)
		}
	}
	if n := s.Evict(); n != 0 || !s.Full() {
		t.Errorf("after a failure: got %d evicted, full %v", n, s.Full())
	}
	s.mu.Lock()
	s.create, s.retry = good, time.Time{}
	s.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); s.Full(); { // Full makes the store retry the disk
		if time.Now().After(deadline) {
			t.Fatal("timeout: store still full")
		}
		time.Sleep(time.Millisecond)
	}
	room(t, s, size)
	if m := s.Memory(); m > 2*size || s.Err() != nil {
		t.Errorf("%d bytes in memory: %v", m, s.Err())
	}
}

func TestMaxSpill(t *testing.T) {
	const size = 100 << 10
	s := open(t, Config{MaxSpill: 3 * size})
	for i := range 5 {
		s.Put(key(i), task.NewValue(random(size)), size)
	}
	moved := 0
	for s.Evict() > 0 {
		moved++
	}
	if moved != 2 || !errors.Is(s.Err(), ErrMaxSpill) || !strings.Contains(s.Err().Error(), "max-spill") {
		t.Errorf("%d moved: %v", moved, s.Err())
	}
	// The files of results that are also in memory are removed for others.
	get(t, s, key(0))
	get(t, s, key(1))
	s.mu.Lock()
	s.retry = time.Time{}
	s.mu.Unlock()
	if n := s.Evict(); n != size || s.Spilled().Disk > 3*size {
		t.Errorf("moved %d, %+v", n, s.Spilled())
	}
}

func TestDamagedFile(t *testing.T) {
	s := open(t, Config{})
	s.Put(key(0), task.NewValue(random(50<<10)), 50<<10)
	s.Evict()
	if err := os.Truncate(s.entries.Get(key(0)).file, 100); err != nil {
		t.Fatal(err)
	}
	e := s.Hold(key(0))
	defer s.Release(e)
	if _, err := e.Open(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "x-0") {
		t.Errorf("opened: %v", err)
	}
	if err := os.Remove(s.entries.Get(key(0)).file); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opened: %v", err)
	}
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	s.Put(key(0), task.NewValue(random(50<<10)), 50<<10)
	s.Put(key(1), task.NewValue(random(50<<10)), 50<<10)
	e, f := s.Hold(key(0)), s.Hold(key(1))
	s.Release(e)
	s.Evict()
	e = s.Hold(key(0))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Open(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("opened after Close: %v", err)
	}
	if v, err := f.Open(); err != nil || v == nil {
		t.Errorf("held result in memory after Close: got %v", err)
	}
	s.ReleaseAll([]*Entry{e, f})
	s.Put(key(2), task.NewValue(nil), 1)
	if s.Len() != 0 || s.Evict() != 0 || s.Memory() != 0 || s.MakeRoom(context.Background(), 1) != nil {
		t.Error("closed store: got a result after Put")
	}
}

// TestStale: directories of killed processes are removed, those of running ones are not.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	alive := open(t, Config{Dir: dir})
	alive.Put(key(0), task.NewValue(random(50<<10)), 50<<10)
	alive.Evict()
	dead := filepath.Join(dir, dirPrefix+"dead")
	young := filepath.Join(dir, dirPrefix+"young")
	other := filepath.Join(dir, "other")
	for _, d := range []string{dead, young, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dead, lockName), filepath.Join(dead, "1.spill"),
		filepath.Join(other, lockName)} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := openDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.remove(); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]bool{dead: false, young: true, other: true, alive.dir.path: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := get(t, alive, key(0)); len(got) != 50<<10 {
		t.Errorf("%d bytes", len(got))
	}
	_ = os.RemoveAll(young)
	_ = os.RemoveAll(other)
}

func TestDirErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Dir: file, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Put(key(0), task.NewValue(random(50<<10)), 50<<10)
	if n := s.Evict(); n != 0 || s.Err() == nil || !strings.Contains(s.Err().Error(), "--local-directory") {
		t.Errorf("%d: %v", n, s.Err())
	}
	if got := get(t, s, key(0)); len(got) != 50<<10 {
		t.Error("got other bytes")
	}
}

func TestMakeRoomIsCancelled(t *testing.T) {
	s := open(t, Config{Target: 1 << 10})
	blocked, started := make(chan struct{}), make(chan struct{})
	create := s.create
	var once sync.Once
	s.create = func(path string) (*os.File, error) {
		once.Do(func() { close(started) })
		<-blocked
		return create(path)
	}
	s.Put(key(0), task.NewValue(random(50<<10)), 50<<10)
	<-started
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("the task was canceled")
	cancel(why)
	if err := s.MakeRoom(ctx, 1<<20); !errors.Is(err, why) {
		t.Errorf("MakeRoom: %v", err)
	}
	// A value that is held while it is written stays in memory.
	e := s.Hold(key(0))
	close(blocked)
	room(t, s, 1<<20)
	if v, err := e.Open(); err != nil || s.Memory() != 50<<10 || v == nil {
		t.Errorf("%v, %d in memory", err, s.Memory())
	}
	s.Release(e)
	room(t, s, 0)
	if s.Memory() != 0 {
		t.Errorf("%d in memory", s.Memory())
	}
}

// TestReserve: reserved room is not given to others.
func TestReserve(t *testing.T) {
	const size = 100 << 10
	s := open(t, Config{Target: 4 * size})
	ctx := context.Background()
	for i := range 4 {
		s.Put(key(i), task.NewValue(random(size)), size)
	}
	for i := range 3 {
		if err := s.Reserve(ctx, size); err != nil {
			t.Fatal(err)
		}
		if m := s.Memory(); m > int64(3-i)*size {
			t.Fatalf("%d bytes in memory with %d reserved", m, i+1)
		}
	}
	// A result that is read back needs room as well: others are spilled, and no caller blocks.
	if b := get(t, s, key(0)); len(b) != size {
		t.Errorf("%d bytes", len(b))
	}
	room(t, s, size)
	if m := s.Memory(); m != 0 {
		t.Errorf("%d bytes in memory with everything reserved", m)
	}
	gone, cancel := context.WithCancelCause(ctx)
	why := errors.New("gone")
	cancel(why)
	held := []*Entry{s.Hold(key(1)), s.Hold(key(2))}
	for _, e := range held {
		if _, err := e.Open(); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	before := s.reserved
	s.mu.Unlock()
	if err := s.Reserve(gone, 10*size); err != nil && !errors.Is(err, why) {
		t.Errorf("Reserve: %v", err)
	} else if err == nil {
		s.Unreserve(10 * size) // does not block
	}
	s.ReleaseAll(held)
	for range 3 {
		s.Unreserve(size)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before != 3*size || s.reserved != 0 {
		t.Errorf("got %d, then %d bytes reserved", before, s.reserved)
	}
}

// TestManyGoroutines: many goroutines put, use and delete results while the spiller runs; no value is confused, and
// nothing is left.
func TestManyGoroutines(t *testing.T) {
	const size = 32 << 10
	s := open(t, Config{Target: 8 * size, Compression: "lz4"})
	var group sync.WaitGroup
	for g := range 6 {
		group.Go(func() {
			for i := range 40 {
				k := key(g*1000 + i)
				b := repeated(size)
				b[0], b[1] = byte(g), byte(i)
				if err := s.MakeRoom(context.Background(), size); err != nil {
					t.Error(err)
				}
				s.Put(k, task.NewValue(b), size)
				if i%7 == 0 {
					s.Evict()
				}
				for _, j := range []int{i, i / 2, i / 3} {
					e := s.Hold(key(g*1000 + j))
					if e == nil {
						continue
					}
					v, err := e.Open()
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := task.As[[]byte](v); err != nil || len(got) != size || got[0] != byte(g) ||
						got[1] != byte(j) {
						t.Errorf("%v: wrong bytes: %v", e.Key(), err)
					}
					if j%5 == 0 {
						s.Delete(e.Key())
					}
					s.Release(e)
				}
			}
		})
	}
	group.Wait()
	for _, k := range s.Keys() {
		s.Delete(k)
	}
	quiesce(t, s)
	if s.Memory() != 0 || s.Spilled() != (Spilled{}) {
		t.Errorf("got %d bytes and %+v left, want none", s.Memory(), s.Spilled())
	}
}
