package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A snapshot replaces records that were appended before it; later ones stay.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{SegmentBytes: 200})
	for i := range 50 {
		if err := j.Wait(t.Context(), add(t, j, i, i+1)); err != nil { // a group each: many segments
			t.Fatal(err)
		}
	}
	before := j.Stats()
	s, err := j.Compact()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Compact(); err == nil || !strings.Contains(err.Error(), "in progress") {
		t.Fatalf("second compaction: got error %v", err)
	}
	add(t, j, 50, 60)
	for i := 40; i < 50; i++ { // of the fifty, only these are kept
		if err := s.Append(Kind(1+i%7), fmt.Appendf(nil, "record-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Abort() // no effect after Commit
	last := add(t, j, 60, 70)
	if err := j.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	st := j.Stats()
	if st.SnapshotBytes == 0 || st.Segments >= before.Segments {
		t.Fatalf("got %+v before, %+v after, want a snapshot and fewer segments", before, st)
	}
	j.Close()
	checkSizes(t, dir, j.Stats())
	j, got := open(t, dir, Options{})
	want(t, got, 40, 70)
	if j.Epoch() != 2 {
		t.Fatalf("epoch: got %d, want 2", j.Epoch())
	}
	// The same with an empty snapshot.
	s, err = j.Compact()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.Close()
	j, got = open(t, dir, Options{})
	want(t, got, 0, 0)
	if j.Epoch() != 3 {
		t.Fatalf("epoch: got %d, want 3", j.Epoch())
	}
}

// checkSizes compares a closed journal's counts with its folder.
func checkSizes(t *testing.T, dir string, st Stats) {
	t.Helper()
	var logs, snapshots int64
	n := 0
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(e.Name(), logPrefix):
			logs += info.Size()
			n++
		case strings.HasPrefix(e.Name(), snapshotPrefix):
			snapshots += info.Size()
		}
	}
	if st.LogBytes != logs || st.SnapshotBytes != snapshots || st.Segments != n {
		t.Fatalf("stats: got %+v, the folder has %d bytes in %d segments, %d in snapshots", st, logs, n, snapshots)
	}
}

// The owner may fold the sealed segments instead of writing its live state.
func TestPrefix(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{SegmentBytes: 200})
	total := 0
	for round := range 3 {
		add(t, j, total, total+20)
		total += 20
		s, err := j.Compact()
		if err != nil {
			t.Fatal(err)
		}
		add(t, j, total, total+5) // not part of it
		n := 0
		err = s.Prefix(t.Context(), func(r Record) error {
			if w := fmt.Sprintf("record-%d", n); string(r.Data) != w {
				return fmt.Errorf("round %d: got %q, want %q", round, r.Data, w)
			}
			n++
			return s.Append(r.Kind, r.Data)
		})
		if err != nil {
			t.Fatal(err)
		}
		if n != total {
			t.Fatalf("round %d: got %d records in the prefix, want %d", round, n, total)
		}
		total += 5
		if err := s.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	checkSizes(t, dir, j.Stats())
	_, got := open(t, dir, Options{})
	want(t, got, 0, total)
}

func TestAbort(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	add(t, j, 0, 10)
	s, err := j.Compact()
	if err != nil {
		t.Fatal(err)
	}
	add(t, j, 10, 20)
	if err := s.Append(1, []byte("no")); err != nil {
		t.Fatal(err)
	}
	s.Abort()
	if err := s.Commit(t.Context()); err == nil {
		t.Fatal("Commit after Abort: got no error")
	}
	if err := s.Append(1, nil); err == nil {
		t.Fatal("Append after Abort: got no error")
	}
	j.Close()
	_, got := open(t, dir, Options{})
	want(t, got, 0, 20)
}

// A compaction may start before the committer has written the cut of an aborted one: no record is lost.
func TestAbortBeforeTheCut(t *testing.T) {
	dir := t.TempDir()
	var once sync.Once
	entered, leave := make(chan struct{}), make(chan struct{})
	j, _ := open(t, dir, Options{OnCommit: func(Ticket, error) {
		once.Do(func() { close(entered); <-leave })
	}})
	add(t, j, 0, 1)
	<-entered // the committer is busy from here on
	var s *Snapshot
	for i := range 3 {
		add(t, j, 1+10*i, 11+10*i)
		var err error
		if s, err = j.Compact(); err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			s.Abort()
		}
	}
	last := add(t, j, 31, 40)
	close(leave)
	if err := j.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	wantPrefix(t, s, 31)
	s.Abort()
	j.Close()
	_, got := open(t, dir, Options{})
	want(t, got, 0, 40)
}

// A snapshot replaces the records before its own cut, even while the cut of an aborted compaction is being written.
func TestCutsOfAbortedCompactions(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	n := 0
	for range 25 {
		for range 2 {
			add(t, j, n, n+1)
			n++
			s, err := j.Compact()
			if err != nil {
				t.Fatal(err)
			}
			s.Abort()
		}
		add(t, j, n, n+1)
		n++
		s, err := j.Compact()
		if err != nil {
			t.Fatal(err)
		}
		add(t, j, n, n+1)
		wantPrefix(t, s, n)
		n++
		s.Abort()
	}
	j.Close()
	_, got := open(t, dir, Options{})
	want(t, got, 0, n)
}

// wantPrefix checks that a snapshot replaces the first n records.
func wantPrefix(t *testing.T, s *Snapshot, n int) {
	t.Helper()
	var got []string
	err := s.Prefix(t.Context(), func(r Record) error {
		got = append(got, fmt.Sprintf("%d:%s", r.Kind, r.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, got, 0, n)
}

// A crash between the new snapshot and the removal of the files that it replaces leaves files that are ignored.
func TestInterruptedCompaction(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	add(t, j, 0, 10)
	if err := compactTo(j, 9); err != nil {
		t.Fatal(err)
	}
	j.Close()
	old, err := os.ReadFile(filepath.Join(dir, fileName(logPrefix, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fileName(logPrefix, 1), fileName(snapshotPrefix, 1), snapshotTmp,
		fileName(logPrefix, 9) + tmpSuffix} {
		if err := os.WriteFile(filepath.Join(dir, name), old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, got := open(t, dir, Options{})
	if len(got) != 1 || got[0] != "2:9" {
		t.Fatalf("records: got %q, want 2:9", got)
	}
	j.Close()
	checkSizes(t, dir, j.Stats())
}

func TestDamagedSnapshot(t *testing.T) {
	make := func() string {
		dir := t.TempDir()
		j, _ := open(t, dir, Options{})
		add(t, j, 0, 10)
		if err := compactTo(j, 9); err != nil {
			t.Fatal(err)
		}
		j.Close()
		return dir
	}
	dir := make()
	data, err := os.ReadFile(filepath.Join(dir, fileName(snapshotPrefix, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range data {
		if err := os.WriteFile(filepath.Join(dir, fileName(snapshotPrefix, 2)), data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}, nil); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("truncated at %d: got error %v, want ErrCorrupt", cut, err)
		}
	}
	dir = make()
	if err := os.Remove(filepath.Join(dir, fileName(logPrefix, 2))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}, nil); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestWantsCompaction(t *testing.T) {
	j, _ := open(t, t.TempDir(), Options{CompactBytes: 1000})
	if err := j.Wait(t.Context(), add(t, j, 0, 5)); err != nil {
		t.Fatal(err)
	}
	if j.WantsCompaction() {
		t.Fatalf("WantsCompaction at %d bytes: got true, want false", j.Stats().LogBytes)
	}
	if err := j.Wait(t.Context(), add(t, j, 0, 100)); err != nil {
		t.Fatal(err)
	}
	if !j.WantsCompaction() {
		t.Fatalf("WantsCompaction at %d bytes: got false, want true", j.Stats().LogBytes)
	}
	s, err := j.Compact()
	if err != nil {
		t.Fatal(err)
	}
	if j.WantsCompaction() {
		t.Fatal("WantsCompaction during a compaction: got true, want false")
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j.WantsCompaction() {
		t.Fatal("WantsCompaction after a compaction: got true, want false")
	}
}
