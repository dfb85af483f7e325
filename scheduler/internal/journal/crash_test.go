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

// child appends numbers without end, going on from the last that it finds, and says each that is
// committed. Its parent kills it.
func child(dir string) {
	next := 0
	j, err := Open(dir, Options{SegmentBytes: 4096}, func(r Record) error {
		n, err := strconv.Atoi(strings.TrimRight(string(r.Data), "."))
		if err == nil && r.Kind == 2 {
			next = n // a snapshot stands for all below
		} else if err == nil && n != next {
			err = fmt.Errorf("record %d where %d was due", n, next)
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

// A process that is killed in the midst of appends, rotations and compactions loses nothing that it had
// said to be committed, and its successor goes on without a gap.
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
		delay := time.Duration(rnd.IntN(3000)) * time.Microsecond // to die anywhere, not only after a commit
		for i := 0; in.Scan(); i++ {
			line := in.Text()
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Fatalf("life %d: %s", lives, line)
			}
			if n < said {
				t.Fatalf("life %d: %d is the last, %d was committed", lives, n, said)
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
		t.Fatalf("only %d records were written", said)
	}
	j, err := Open(dir, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lives, %d records, epoch %d", lives, said, j.Epoch())
	j.Close()
}

// build makes a journal of one segment whose groups hold these numbers of records, as a crash leaves it
// (no seal), and returns the bytes of that segment and the offset of each group.
func build(t *testing.T, groups ...int) (data []byte, starts []int64) {
	t.Helper()
	dir := t.TempDir()
	j, _ := open(t, dir, Options{})
	n := 0
	for _, g := range groups {
		starts = append(starts, j.Stats().LogBytes)
		// All of a group are appended at once: the committer sleeps, so it takes them together.
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

// reopen puts bytes as the last segment of a journal and opens it.
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
	// What was mended is whole: a second look finds the same.
	again := 0
	j, err = Open(dir, Options{NoSync: true}, func(Record) error { again++; return nil })
	if err != nil {
		t.Fatalf("the mended journal: %v", err)
	}
	if again != len(got) || j.Stats().TornBytes != 0 {
		t.Fatalf("the mended journal has %d records, had %d", again, len(got))
	}
	return got, st, j.Close()
}

// A segment cut at any byte gives the records that are whole before the cut.
func TestTornTail(t *testing.T) {
	data, _ := build(t, 1, 3, 2)
	last := 0
	for cut := headerSize; cut <= len(data); cut++ {
		got, st, err := reopen(t, data[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if len(got) < last || len(got) > 6 {
			t.Fatalf("cut at %d: %d records, %d at the cut before", cut, len(got), last)
		}
		last = len(got)
		want(t, got, 0, last)
		if st.TornBytes < 0 || st.TornBytes > 40 {
			t.Fatalf("cut at %d: %d torn bytes", cut, st.TornBytes)
		}
	}
	if last != 6 {
		t.Fatalf("%d records in the whole segment", last)
	}
}

// Pages of the last group reach the disk in any order: a hole in it is a torn end too.
func TestHoleInTheLastGroup(t *testing.T) {
	data, starts := build(t, 2, 5)
	for from := int(starts[1]); from < len(data)-3; from++ {
		torn := append([]byte(nil), data...)
		clear(torn[from : from+3])
		got, _, err := reopen(t, torn)
		if err != nil {
			t.Fatalf("hole at %d: %v", from, err)
		}
		if len(got) < 2 {
			t.Fatalf("hole at %d: %d records", from, len(got))
		}
		want(t, got, 0, len(got))
	}
}

// Any changed byte in what later groups show to have been synced is damage, and is called so.
func TestCorruptMiddle(t *testing.T) {
	data, starts := build(t, 2, 3, 1)
	for i := 0; i < int(starts[2]); i++ {
		bad := append([]byte(nil), data...)
		bad[i] ^= 0x10
		_, _, err := reopen(t, bad)
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if !strings.Contains(err.Error(), fileName(logPrefix, 1)) {
			t.Fatalf("the error names no file: %v", err)
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
