package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("JOURNAL_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	os.Exit(leak.Main(m))
}

// open opens a journal and returns the replayed records, as "kind:data".
func open(t *testing.T, dir string, opts Options) (*Journal, []string) {
	t.Helper()
	var got []string
	j, err := Open(dir, opts, func(r Record) error {
		got = append(got, fmt.Sprintf("%d:%s", r.Kind, r.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, got
}

func add(t *testing.T, j *Journal, from, to int) Ticket {
	t.Helper()
	var last Ticket
	for i := from; i < to; i++ {
		ticket, err := j.Append(Kind(1+i%7), fmt.Appendf(nil, "rec"), fmt.Appendf(nil, "ord-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		last = ticket
	}
	return last
}

// want checks that exactly the records from..to-1 are present, in order.
func want(t *testing.T, got []string, from, to int) {
	t.Helper()
	if len(got) != to-from {
		t.Fatalf("records: got %d, want %d", len(got), to-from)
	}
	for i, s := range got {
		if w := fmt.Sprintf("%d:record-%d", 1+(from+i)%7, from+i); s != w {
			t.Fatalf("record %d: got %q, want %q", i, s, w)
		}
	}
}

func TestAppendAndReplay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	n := 0
	for round := range 4 {
		j, got := open(t, dir, Options{SegmentBytes: 300})
		want(t, got, 0, n)
		if e := j.Epoch(); e != uint32(round+1) {
			t.Fatalf("epoch: got %d in round %d", e, round)
		}
		for range 10 {
			ticket := add(t, j, n, n+5)
			n += 5
			if err := j.Wait(context.Background(), ticket); err != nil {
				t.Fatal(err)
			}
			if c := j.Committed(); c < ticket {
				t.Fatalf("committed: got %d after a wait for %d", c, ticket)
			}
		}
		if st := j.Stats(); st.Records != 50 || st.Segments < 3*(round+1) || st.Replayed != uint64(50*round) ||
			st.TornBytes != 0 {
			t.Fatalf("stats: got %+v", st)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatalf("second Close: got error %v, want none", err)
		}
		if _, err := j.Append(1, nil); !errors.Is(err, ErrClosed) {
			t.Fatalf("Append after Close: got error %v, want ErrClosed", err)
		}
	}
}

// Close commits records that no caller has waited for.
func TestCloseCommits(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	last := add(t, j, 0, 1000)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Wait(context.Background(), last); err != nil {
		t.Fatalf("Wait for a committed ticket after Close: got error %v, want none", err)
	}
	if err := j.Wait(context.Background(), last+1); !errors.Is(err, ErrClosed) {
		t.Fatalf("Wait for an unknown ticket: got error %v, want ErrClosed", err)
	}
	_, got := open(t, dir, Options{})
	want(t, got, 0, 1000)
}

func TestGroupCommit(t *testing.T) {
	var mu sync.Mutex
	var seen []Ticket
	var synced uint64
	dir := t.TempDir()
	j, _ := open(t, dir, Options{SegmentBytes: 20_000, OnSync: func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if synced++; d <= 0 {
			t.Errorf("duration of a sync: got %v", d)
		}
	}, OnCommit: func(upTo Ticket, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil || len(seen) > 0 && upTo <= seen[len(seen)-1] {
			t.Errorf("commit of %d after %v: error %v", upTo, seen, err)
		}
		seen = append(seen, upTo)
	}})
	var wg sync.WaitGroup
	const each, writers = 200, 8
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				ticket, err := j.Append(1, fmt.Appendf(nil, "%d-%d", w, i))
				if err != nil {
					t.Error(err)
					return
				}
				if i%20 == 19 {
					if err := j.Wait(t.Context(), ticket); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	st := j.Stats()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if st.Records != each*writers || st.Syncs == 0 || st.Syncs > st.Records {
		t.Fatalf("stats: got %+v", st)
	}
	if n := j.Stats().Syncs; synced != n {
		t.Errorf("OnSync: got %d calls, want %d", synced, n)
	}
	if last := seen[len(seen)-1]; last != each*writers {
		t.Fatalf("last commit: got %d", last)
	}
	_, got := open(t, dir, Options{})
	next := map[string]int{} // the records of each writer are in order
	for _, s := range got {
		var w, i int
		if _, err := fmt.Sscanf(s, "1:%d-%d", &w, &i); err != nil {
			t.Fatal(err)
		}
		if key := fmt.Sprint(w); next[key] != i {
			t.Fatalf("writer %d: got record %d, want %d", w, i, next[key])
		} else {
			next[key]++
		}
	}
	if len(got) != each*writers {
		t.Fatalf("records: got %d", len(got))
	}
}

func TestOneOwner(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	_, err := Open(dir, Options{}, nil)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("second owner: got error %v, want ErrLocked", err)
	}
	j.Close()
	j2, err := Open(dir, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j2.Close()
}

func TestBadRecords(t *testing.T) {
	j, _ := open(t, t.TempDir(), Options{MaxRecord: 100})
	for _, kind := range []Kind{0, MaxKind + 1, kindMark} {
		if _, err := j.Append(kind, []byte("x")); err == nil {
			t.Errorf("kind %d: got no error", kind)
		}
	}
	if _, err := j.Append(1, make([]byte, 60), make([]byte, 41)); err == nil ||
		!strings.Contains(err.Error(), "exceeds the limit of 100") {
		t.Errorf("record above the limit: got error %v", err)
	}
	if _, err := j.Append(1); err != nil {
		t.Errorf("empty record: got error %v, want none", err)
	}
}

func TestReplayError(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	add(t, j, 0, 3)
	j.Close()
	mine := errors.New("mine")
	if _, err := Open(dir, Options{}, func(Record) error { return mine }); !errors.Is(err, mine) {
		t.Fatal(err)
	}
	_, got := open(t, dir, Options{}) // the lock was released
	want(t, got, 0, 3)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	j, _ := open(t, t.TempDir(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { errs <- j.Wait(ctx, 100) }()
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A failed write is final: later appends must not be reported as committed.
func TestFailedWrite(t *testing.T) {
	failed := make(chan error, 1)
	j, _ := open(t, t.TempDir(), Options{OnCommit: func(_ Ticket, err error) {
		if err != nil {
			failed <- err
		}
	}})
	if err := j.Wait(t.Context(), add(t, j, 0, 1)); err != nil {
		t.Fatal(err)
	}
	j.seg.file.Close() // like a broken disk; the committer is idle
	ticket := add(t, j, 1, 2)
	if err := j.Wait(t.Context(), ticket); err == nil || !strings.Contains(err.Error(), "log-") {
		t.Fatalf("Wait: got error %v, want one with the file", err)
	}
	if err := <-failed; err == nil {
		t.Fatal("OnCommit: got no error")
	}
	if _, err := j.Append(1, nil); err == nil {
		t.Fatal("Append after a failure: got no error")
	}
	if _, err := j.Compact(); err == nil {
		t.Fatal("Compact after a failure: got no error")
	}
	if j.Err() == nil || j.Close() == nil {
		t.Fatal("Err or Close after a failure: got no error")
	}
}

func TestForeignFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}, nil); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Fatal(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, noSync := range []bool{false, true} {
		b.Run(fmt.Sprintf("nosync=%v", noSync), func(b *testing.B) {
			j, err := Open(b.TempDir(), Options{NoSync: noSync}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			data := make([]byte, 200)
			b.SetBytes(int64(len(data)))
			var last Ticket
			for b.Loop() {
				if last, err = j.Append(1, data); err != nil {
					b.Fatal(err)
				}
			}
			if err := j.Wait(b.Context(), last); err != nil {
				b.Fatal(err)
			}
			st := j.Stats()
			b.ReportMetric(float64(st.Records)/float64(max(st.Syncs, 1)), "records/sync")
		})
	}
}
