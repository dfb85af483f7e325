package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// child appends numbers without end, starting after the last that it finds, and prints each committed one. Its parent
// kills it.
func child(dir string) {
	next := 0
	j, err := Open(dir, Options{SegmentBytes: 4096}, func(r Record) error {
		n, err := strconv.Atoi(strings.TrimRight(string(r.Data), "."))
		if err == nil && r.Kind == 2 {
			next = n // a snapshot replaces all below
		} else if err == nil && n != next {
			err = fmt.Errorf("record: got %d, want %d", n, next)
		}
		next++
		return err
	})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	rnd := rand.New(rand.NewPCG(uint64(next), 1))
	fmt.Println(next - 1)
	for {
		var ticket Ticket
		for range 1 + rnd.IntN(20) {
			ticket, err = j.Append(1, fmt.Appendf(nil, "%d%s", next, strings.Repeat(".", rnd.IntN(300))))
			if err != nil {
				break
			}
			next++
		}
		if err == nil {
			err = j.Wait(context.Background(), ticket)
		}
		if err == nil && rnd.IntN(8) == 0 {
			err = compactTo(j, next-1)
		}
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(next - 1)
	}
}

func compactTo(j *Journal, n int) error {
	s, err := j.Compact()
	if err != nil {
		return err
	}
	if err := s.Append(2, strconv.AppendInt(nil, int64(n), 10)); err != nil {
		return err
	}
	return s.Commit(context.Background())
}

// A process that is killed during appends, rotations and compactions loses no record that it had reported as committed,
// and its successor continues without a gap.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(7, 7))
	said, lives := -1, 0
	for lives < 25 {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), "JOURNAL_TEST_CHILD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(out)
		stop := 1 + rnd.IntN(12)
		delay := time.Duration(rnd.IntN(3000)) * time.Microsecond // crash at any point, not only after a commit
		for i := 0; in.Scan(); i++ {
			line := in.Text()
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Fatalf("run %d: %s", lives, line)
			}
			if n < said {
				t.Fatalf("run %d: got %d as the last record, want at least %d", lives, n, said)
			}
			said = n
			if i == stop {
				time.Sleep(delay)
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		lives++
	}
	if said < 25 {
		t.Fatalf("records: got %d, want at least 25", said)
	}
	j, err := Open(dir, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lives, %d records, epoch %d", lives, said, j.Epoch())
	j.Close()
}

// build creates a journal of one segment whose groups hold these numbers of records, as after a crash (no seal), and
// returns the bytes of that segment and the offset of each group.
func build(t *testing.T, groups ...int) (data []byte, starts []int64) {
	t.Helper()
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	n := 0
	for _, g := range groups {
		starts = append(starts, j.Stats().LogBytes)
		// All records of a group are appended at once: the committer is idle, so it takes them together.
		j.mu.Lock()
		for range g {
			j.pending = appendFrame(j.pending, j.salt, Kind(1+n%7), fmt.Appendf(nil, "record-%d", n))
			j.pendingN++
			j.appended++
			n++
		}
		ticket := j.appended
		j.work.Signal()
		j.mu.Unlock()
		if err := j.Wait(t.Context(), ticket); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName(logPrefix, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return data, starts
}

// reopen writes bytes as the last segment of a journal and opens it.
func reopen(t *testing.T, data []byte) (got []string, st Stats, err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName(logPrefix, 1)), data, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := Open(dir, Options{NoSync: true}, func(r Record) error {
		got = append(got, fmt.Sprintf("%d:%s", r.Kind, r.Data))
		return nil
	})
	if err != nil {
		return got, st, err
	}
	st = j.Stats()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// The repaired journal is complete: reading it again gives the same records.
	again := 0
	j, err = Open(dir, Options{NoSync: true}, func(Record) error { again++; return nil })
	if err != nil {
		t.Fatalf("repaired journal: got error %v, want none", err)
	}
	if again != len(got) || j.Stats().TornBytes != 0 {
		t.Fatalf("repaired journal: got %d records, want %d", again, len(got))
	}
	return got, st, j.Close()
}

// A segment that is truncated at any byte has all complete records before that byte.
func TestTornTail(t *testing.T) {
	data, _ := build(t, 1, 3, 2)
	last := 0
	for cut := headerSize; cut <= len(data); cut++ {
		got, st, err := reopen(t, data[:cut])
		if err != nil {
			t.Fatalf("truncated at %d: got error %v, want none", cut, err)
		}
		if len(got) < last || len(got) > 6 {
			t.Fatalf("truncated at %d: got %d records, %d at the byte before", cut, len(got), last)
		}
		last = len(got)
		want(t, got, 0, last)
		if st.TornBytes < 0 || st.TornBytes > 40 {
			t.Fatalf("truncated at %d: got %d torn bytes, want at most 40", cut, st.TornBytes)
		}
	}
	if last != 6 {
		t.Fatalf("records of the whole segment: got %d, want 6", last)
	}
}

// Pages of the last group are written in any order: a hole in it is a torn end too.
func TestHoleInTheLastGroup(t *testing.T) {
	data, starts := build(t, 2, 5)
	for from := int(starts[1]); from < len(data)-3; from++ {
		torn := append([]byte(nil), data...)
		clear(torn[from : from+3])
		got, _, err := reopen(t, torn)
		if err != nil {
			t.Fatalf("hole at %d: got error %v, want none", from, err)
		}
		if len(got) < 2 {
			t.Fatalf("hole at %d: got %d records, want at least 2", from, len(got))
		}
		want(t, got, 0, len(got))
	}
}

// Any changed byte before a later group, which was synced, is reported as damage.
func TestCorruptMiddle(t *testing.T) {
	data, starts := build(t, 2, 3, 1)
	for i := 0; i < int(starts[2]); i++ {
		bad := append([]byte(nil), data...)
		bad[i] ^= 0x10
		_, _, err := reopen(t, bad)
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d changed: got error %v, want ErrCorrupt", i, err)
		}
		if !strings.Contains(err.Error(), fileName(logPrefix, 1)) {
			t.Fatalf("error: got %v, want one with the file", err)
		}
	}
}

func TestChainOfFiles(t *testing.T) {
	make := func(t *testing.T) string {
		dir := t.TempDir()
		for range 3 {
			j, _ := open(t, dir, Options{})
			add(t, j, 0, 2)
			j.Close()
		}
		return dir
	}
	name := func(dir string, n uint64) string { return filepath.Join(dir, fileName(logPrefix, n)) }
	for what, damage := range map[string]func(dir string) error{
		"missing first":  func(dir string) error { return os.Remove(name(dir, 1)) },
		"missing middle": func(dir string) error { return os.Remove(name(dir, 2)) },
		"cut middle":     func(dir string) error { return os.Truncate(name(dir, 2), headerSize+30) },
		"renamed": func(dir string) error {
			return errors.Join(os.Rename(name(dir, 3), name(dir, 4)), os.Rename(name(dir, 2), name(dir, 3)),
				os.Rename(name(dir, 4), name(dir, 2)))
		},
		"empty":      func(dir string) error { return os.Truncate(name(dir, 3), 0) },
		"after seal": func(dir string) error { return appendTo(name(dir, 3), "x") },
	} {
		t.Run(what, func(t *testing.T) {
			dir := make(t)
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, Options{}, nil); !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		})
	}
	t.Run("newer version", func(t *testing.T) {
		dir := make(t)
		b, err := os.ReadFile(name(dir, 3))
		if err != nil {
			t.Fatal(err)
		}
		b[8]++
		if err := os.WriteFile(name(dir, 3), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}, nil); err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Fatal(err)
		}
	})
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}
