package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/testkit/leak"
)

// fillFolder creates a journal of one record in each of several groups.
func fillFolder(t *testing.T, texts ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := Open(dir, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		ticket, err := j.Append(1, []byte(text))
		if err == nil {
			err = j.Wait(t.Context(), ticket)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func contentsOf(t *testing.T, dir string) string {
	t.Helper()
	var got []string
	j, err := Open(dir, Options{}, func(r Record) error {
		got = append(got, string(r.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(got, " ")
}

// Records that the owner rejects, and changed bytes, are reported and left out; the rest is kept, and so is the
// original journal. The epoch increases.
func TestRepair(t *testing.T) {
	leak.Check(t)
	dir := fillFolder(t, "one", "poison", "three", "broken", "five")
	file := filepath.Join(dir, fileName(logPrefix, 1))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[strings.Index(string(b), "broken")] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	refuse := func(r Record) error {
		if string(r.Data) == "poison" {
			return errors.New("rejected by the owner")
		}
		return nil
	}
	if _, err := Open(dir, Options{}, refuse); err == nil {
		t.Fatal("Open: got no error")
	}
	found, err := Check(dir, Options{}, refuse)
	if err != nil || len(found.Problems) != 2 || found.Records != 3 {
		t.Fatalf("check: got %+v, %v, want 2 problems and 3 records", found, err)
	}
	if p := found.Problems[0]; !strings.Contains(p.String(), "rejected by the owner") {
		t.Errorf("first problem: got %v, want the owner's error", p)
	}
	if p := found.Problems[1]; !errors.Is(p.Err, ErrCorrupt) || p.Offset == 0 || p.Bytes == 0 {
		t.Errorf("second problem: got %v, want the damage with its place", p)
	}
	done, err := Repair(dir, Options{}, refuse)
	if err != nil || len(done.Problems) != 2 || done.Backup == "" {
		t.Fatalf("repair: got %+v, %v, want 2 problems and a backup", done, err)
	}
	if got, want := contentsOf(t, dir), "one three five"; got != want {
		t.Errorf("after the repair: got %q, want %q", got, want)
	}
	if old, err := os.ReadFile(filepath.Join(done.Backup, fileName(logPrefix, 1))); err != nil ||
		string(old) != string(b) {
		t.Errorf("backup: got other contents, error %v", err)
	}
	j, err := Open(dir, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if j.Epoch() <= done.Epoch {
		t.Errorf("epoch: got %d, want more than %d", j.Epoch(), done.Epoch)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := Repair(dir, Options{}, refuse); err != nil || again.Backup != "" || len(again.Problems) != 0 {
		t.Errorf("a second repair: got %+v, %v, want nothing to do", again, err)
	}
}

// Files that other users own or may write are not used, and no link, pipe or device is opened.
func TestUnsafeFiles(t *testing.T) {
	leak.Check(t)
	canary := filepath.Join(t.TempDir(), "canary")
	for name, spoil := range map[string]func(dir string) error{
		"folder that others may write": func(dir string) error { return os.Chmod(dir, 0o777) },
		"lock that is a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, lockName)),
				os.Symlink(canary, filepath.Join(dir, lockName)))
		},
		"lock that is a pipe": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, lockName)),
				syscall.Mkfifo(filepath.Join(dir, lockName), 0o600))
		},
		"segment that is a link": func(dir string) error {
			return os.Symlink(canary, filepath.Join(dir, fileName(logPrefix, 2)))
		},
		"segment that is a pipe": func(dir string) error {
			return syscall.Mkfifo(filepath.Join(dir, fileName(logPrefix, 2)), 0o600)
		},
		"segment that others may write": func(dir string) error {
			return os.Chmod(filepath.Join(dir, fileName(logPrefix, 1)), 0o666)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fillFolder(t, "one")
			if err := os.WriteFile(canary, []byte("canary"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			j, err := Open(dir, Options{}, nil)
			if err == nil {
				_ = j.Close()
			}
			if !errors.Is(err, ErrUnsafe) {
				t.Errorf("got %v, want ErrUnsafe", err)
			}
			if got, err := os.ReadFile(canary); err != nil || string(got) != "canary" {
				t.Errorf("file behind the link: got %q, error %v, want it unchanged", got, err)
			}
		})
	}
}

// A process that is out of descriptors when a segment is full waits for one, and continues.
func TestRotationWithoutDescriptors(t *testing.T) {
	held := make(chan error, 1)
	j, err := Open(filepath.Join(t.TempDir(), "journal"),
		Options{SegmentBytes: 1000, OnHold: func(err error) { held <- err }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.spare.Close() // as if another goroutine had taken it
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 3 // open files stay open
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	ticket, err := j.Append(1, make([]byte, 2000))
	if err != nil {
		restore()
		t.Fatal(err)
	}
	err = <-held
	restore()
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("OnHold: got %v, want EMFILE", err)
	}
	if err := j.Wait(t.Context(), ticket); err != nil {
		t.Fatal(err)
	}
	if j.Err() != nil || j.Stats().Held == 0 {
		t.Errorf("got error %v and %d holds, want none and some", j.Err(), j.Stats().Held)
	}
}

// The epoch of a journal is the highest of its files: after a repair it continues from there.
func TestEpochOfDamagedJournals(t *testing.T) {
	filled := func(least uint32) string {
		dir := filepath.Join(t.TempDir(), "journal")
		for range 3 { // a segment each
			j, err := Open(dir, Options{MinEpoch: least}, func(Record) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := j.Append(1, []byte("record")); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	none := func(Record) error { return nil }
	high, low := filled(10), filled(0)
	for dir, want := range map[string]uint32{high: 12, low: 3} {
		if r, err := Check(dir, Options{}, none); err != nil || r.Epoch != want || len(r.Problems) != 0 {
			t.Errorf("got %+v, %v, want epoch %d and no problems", r, err, want)
		}
	}
	b, err := os.ReadFile(filepath.Join(low, fileName(logPrefix, 3)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(high, fileName(logPrefix, 3)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(high, Options{}, none); err != nil || r.Epoch != 11 {
		t.Errorf("with a file of an older copy: got %+v, %v, want epoch 11", r, err)
	}
}

// Records have the kinds that releases write: others are damage.
func TestKindsOfRecords(t *testing.T) {
	dir := fillFolder(t, "one")
	file := filepath.Join(dir, fileName(logPrefix, 1))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := decodeHeader(b[:headerSize])
	if err != nil {
		t.Fatal(err)
	}
	for kind, ok := range map[Kind]bool{0: false, 1: true, MaxKind: true, MaxKind + 1: false} {
		if err := os.WriteFile(file, appendFrame(b[:headerSize:headerSize], h.salt, kind, []byte("x")),
			0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Check(dir, Options{}, func(Record) error { return nil })
		if err != nil || (len(r.Problems) == 0) != ok || (r.Records == 1) != ok {
			t.Errorf("check of kind %d: got %+v, %v, want it accepted: %v", kind, r, err, ok)
		}
		var got []Kind
		j, err := Open(dir, Options{}, func(r Record) error { got = append(got, r.Kind); return nil })
		if (err == nil) != ok || errors.Is(err, ErrCorrupt) == ok || ok && (len(got) != 1 || got[0] != kind) {
			t.Errorf("kind %d: got %v, %v, want it accepted: %v", kind, got, err, ok)
		}
		if err == nil {
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			for n := uint64(2); ; n++ { // started by Open
				if os.Remove(filepath.Join(dir, fileName(logPrefix, n))) != nil {
					break
				}
			}
		}
	}
}
