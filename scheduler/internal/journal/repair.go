package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Problem is a place of a journal that cannot be used.
type Problem struct {
	// File is the name in the folder, Offset the start of the bad place in it, and Bytes its length.
	File   string
	Offset int64
	Bytes  int64
	// Err is the cause: damage wraps ErrCorrupt, a record that its owner rejects the owner's error.
	Err error
}

func (p Problem) String() string {
	return fmt.Sprintf("%s at byte %d: %d bytes: %v", p.File, p.Offset, p.Bytes, p.Err)
}

// Report is returned by Check and Repair.
type Report struct {
	// Records is the number of good records, Epoch that of the newest file.
	Records uint64
	Epoch   uint32
	// Problems are in the order of the files.
	Problems []Problem
	// Backup is the path to which Repair has moved the original journal; "" if nothing was repaired.
	Backup string

	handed  int   // number of records passed to replay
	refused []int // numbers of the records that replay rejected
}

// Check reads a journal and passes every record to replay, as Open does, but continues after damage and after records
// that replay rejects. It changes nothing. The journal must not be in use.
func Check(dir string, opts Options, replay func(Record) error) (Report, error) {
	opts.fill()
	if err := checkFolder(dir); err != nil {
		return Report{}, fmt.Errorf("journal %s: %w", dir, err)
	}
	lock, err := takeLock(dir)
	if err != nil {
		return Report{}, fmt.Errorf("journal %s: %w", dir, err)
	}
	defer lock.Close()
	r, err := check(dir, opts, replay)
	if err != nil {
		return r, fmt.Errorf("journal %s: %w", dir, err)
	}
	return r, nil
}

func check(dir string, opts Options, replay func(Record) error) (r Report, err error) {
	c, err := list(dir)
	if err != nil {
		return r, err
	}
	names := make([]string, 0, len(c.logs)+1)
	if c.snapshot > 0 {
		names = append(names, fileName(snapshotPrefix, c.snapshot))
	}
	for _, n := range c.logs {
		names = append(names, fileName(logPrefix, n))
	}
	for i, name := range names {
		if err := r.checkFile(dir, name, opts, i == len(names)-1, replay); err != nil {
			return r, err
		}
	}
	return r, nil
}

// checkFile reads one file. After a bad frame it continues at the next mark.
func (r *Report) checkFile(dir, name string, opts Options, last bool, replay func(Record) error) error {
	f, err := openFile(dir, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	bad := func(at, n int64, err error) { r.Problems = append(r.Problems, Problem{name, at, n, err}) }
	head := make([]byte, min(size, headerSize))
	if _, err := f.ReadAt(head, 0); err != nil {
		return err
	}
	h, err := decodeHeader(head)
	if err != nil {
		bad(0, size, fmt.Errorf("%w: %w", ErrCorrupt, err))
		return nil
	}
	r.Epoch = max(r.Epoch, h.epoch)
	var frame [frameSize]byte
	var data []byte
	sealed := false
	from := func(at int64) *bufio.Reader { return bufio.NewReaderSize(io.NewSectionReader(f, at, size-at), 1<<20) }
	in := from(headerSize)
	for at := int64(headerSize); at < size; {
		kind, body, err := readFrame(in, size-at, h.salt, opts.MaxRecord, frame[:], &data)
		var broken badFrame
		switch {
		case errors.As(err, &broken):
			next, found, err := findMark(f, at, size, h.salt)
			if err != nil {
				return err
			}
			if !found {
				bad(at, size-at, fmt.Errorf("%w: %w", ErrCorrupt, broken))
				return nil
			}
			bad(at, next-at, fmt.Errorf("%w: %w", ErrCorrupt, broken))
			at, in = next, from(next)
			continue
		case err != nil:
			return err
		}
		n := frameSize + int64(len(body))
		switch {
		case kind == kindSeal:
			sealed = true
		case kind == kindMark:
		case kind == 0 || kind > MaxKind:
			bad(at, n, fmt.Errorf("%w: unknown kind %d", ErrCorrupt, kind))
		default:
			r.handed++
			if err := replay(Record{Kind: kind, Data: body}); err != nil {
				bad(at, n, err)
				r.refused = append(r.refused, r.handed)
			} else {
				r.Records++
			}
		}
		at += n
	}
	if !sealed && !last {
		bad(size, 0, fmt.Errorf("%w: file ends before its seal and is not the last", ErrCorrupt))
	}
	return nil
}

// Repair writes a copy of a journal without the places that Check reports, and replaces the journal with it. The
// original journal is kept next to it, under the name in the report. A journal without problems is not changed.
func Repair(dir string, opts Options, replay func(Record) error) (Report, error) {
	opts.fill()
	fail := func(r Report, err error) (Report, error) { return r, fmt.Errorf("journal %s: repair: %w", dir, err) }
	dir = filepath.Clean(dir)
	if err := checkFolder(dir); err != nil {
		return fail(Report{}, err)
	}
	lock, err := takeLock(dir)
	if err != nil {
		return fail(Report{}, err)
	}
	defer lock.Close()
	found, err := check(dir, opts, replay)
	if err != nil || len(found.Problems) == 0 {
		return found, err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".repaired-")
	if err != nil {
		return fail(found, err)
	}
	defer os.RemoveAll(fresh) // renamed on success
	out, err := Open(fresh, Options{SegmentBytes: opts.SegmentBytes, MaxRecord: opts.MaxRecord, MinEpoch: found.Epoch},
		nil)
	if err != nil {
		return fail(found, err)
	}
	place := 0
	_, err = check(dir, opts, func(r Record) error { // the first pass has recorded the bad ones
		place++
		if slices.Contains(found.refused, place) {
			return nil
		}
		_, err := out.Append(r.Kind, r.Data)
		return err
	})
	if err = errors.Join(err, out.Close()); err != nil {
		return fail(found, err)
	}
	found.Backup = freeName(dir + ".damaged")
	if err := os.Rename(dir, found.Backup); err != nil {
		return fail(found, err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fail(found, errors.Join(err, os.Rename(found.Backup, dir)))
	}
	return found, nil
}

// freeName returns a name that does not exist yet.
func freeName(name string) string {
	for i := 1; ; i++ {
		next := fmt.Sprintf("%s-%d", name, i)
		if _, err := os.Lstat(next); errors.Is(err, os.ErrNotExist) {
			return next
		}
	}
}
