package gcfloor

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for _, tc := range []struct {
		live, floor int64
		want        int
	}{
		{0, 0, 100},
		{0, 64 << 20, 6300},
		{8 << 20, 64 << 20, 700},
		{32 << 20, 64 << 20, 100},
		{1 << 30, 64 << 20, 100},
		{0, 1 << 50, most},
	} {
		if got := percent(tc.live, tc.floor); got != tc.want {
			t.Errorf("percent(%d, %d) = %d, want %d", tc.live, tc.floor, got, tc.want)
		}
	}
}

// garbage makes some, and returns how many collections that took.
func garbage(megabytes int) uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range megabytes {
		for range 1024 {
			sink = make([]byte, 1024)
		}
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

var sink []byte

// With a floor a process that keeps little is rarely collected; without it, as before.
func TestSet(t *testing.T) {
	t.Setenv("GOGC", "")
	old := debug.SetGCPercent(usual)
	defer debug.SetGCPercent(old)
	runtime.GC()
	plain := garbage(256)
	Set(64 << 20)
	runtime.GC()
	high := garbage(256)
	if plain < 10 || high >= plain/2 {
		t.Errorf("%d collections without a floor, %d with", plain, high)
	}
	// What stays alive beyond the floor is collected when it has doubled.
	keep := make([][]byte, 0, 100)
	for range 100 {
		keep = append(keep, make([]byte, 1<<20))
	}
	runtime.GC()
	deadline := time.Now().Add(time.Minute)
	for {
		mu.Lock()
		p := current
		mu.Unlock()
		if p == usual {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("100 MiB are alive and the percentage is %d", p)
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(keep)
	Set(0)
	if again := debug.SetGCPercent(usual); again != usual {
		t.Errorf("without a floor the percentage is %d", again)
	}
}

// A user who has set GOGC is not overruled.
func TestUser(t *testing.T) {
	t.Setenv("GOGC", "50")
	Set(1 << 30)
	if floor != 0 {
		t.Error("the floor was set all the same")
	}
}
