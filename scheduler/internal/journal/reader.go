package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// scanned is the result of scanning a file.
type scanned struct {
	header  header
	records uint64
	sealed  bool
	end     int64 // offset after the last good frame
	torn    int64 // bytes after it, left by a crash
}

// scan reads the frames of a file and calls record for each record. It allocates by the size of the file, never by a
// length in it.
func scan(name string, r io.ReaderAt, size int64, maxRecord int, record func(Record) error) (scanned, error) {
	var s scanned
	corrupt := func(at int64, format string, args ...any) error {
		return fmt.Errorf("%w: %s at byte %d of %d: %s", ErrCorrupt, name, at, size, fmt.Sprintf(format, args...))
	}
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<20)
	head := make([]byte, min(size, headerSize))
	if _, err := io.ReadFull(in, head); err != nil {
		return s, err
	}
	var err error
	if s.header, err = decodeHeader(head); err != nil {
		return s, corrupt(0, "%v", err)
	}
	s.end = headerSize
	var frame [frameSize]byte
	var data []byte
	for s.end < size {
		if s.sealed {
			return s, corrupt(s.end, "file continues after its seal")
		}
		kind, body, err := readFrame(in, size-s.end, s.header.salt, maxRecord, frame[:], &data)
		if err != nil {
			var bad badFrame
			if !errors.As(err, &bad) {
				return s, err
			}
			s.torn = size - s.end
			at, found, err := findMark(r, s.end, size, s.header.salt)
			if err != nil {
				return s, err
			}
			if found {
				return s,
					corrupt(s.end,
						"%v; the frame at byte %d was written after this one had been synced, so the disk or another "+
							"program has changed the file: restore the folder from a copy, or begin with an empty "+
							"one", bad, at)
			}
			return s, nil
		}
		switch kind {
		case kindMark:
			if v, ok := ownValue(body); !ok || v != uint64(s.end) {
				return s, corrupt(s.end, "mark has the wrong offset")
			}
		case kindSeal:
			if v, ok := ownValue(body); !ok || v != s.records {
				return s, corrupt(s.end, "seal counts %d records, file has %d", v, s.records)
			}
			s.sealed = true
		default:
			if kind == 0 || kind > MaxKind {
				return s, corrupt(s.end, "record of unknown kind %d", kind)
			}
			s.records++
			if err := record(Record{Kind: kind, Data: body}); err != nil {
				return s, err
			}
		}
		s.end += frameSize + int64(len(body))
	}
	return s, nil
}

// badFrame is the reason why bytes are not a frame.
type badFrame string

func (b badFrame) Error() string { return string(b) }

// readFrame reads one frame of at most left bytes. The body is valid until the next call.
func readFrame(in *bufio.Reader, left int64, salt uint64, maxRecord int, head []byte, buf *[]byte) (Kind, []byte,
	error) {
	if left < frameSize {
		return 0, nil, badFrame("file ends within the head of a frame")
	}
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, nil, err
	}
	n := int64(le.Uint32(head))
	if n > left-frameSize {
		return 0, nil, badFrame("file ends within a frame")
	}
	if n > int64(maxRecord) && n > 16 {
		return 0, nil, badFrame("length of a frame exceeds the limit")
	}
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n+n/4)
	}
	body := (*buf)[:n]
	if _, err := io.ReadFull(in, body); err != nil {
		return 0, nil, err
	}
	if checksum(salt, head, body) != le.Uint32(head[4:]) {
		return 0, nil, badFrame("wrong checksum of a frame")
	}
	return Kind(head[8]), body, nil
}

func ownValue(body []byte) (uint64, bool) {
	if len(body) != 16 || [8]byte(body[:8]) != signature {
		return 0, false
	}
	return le.Uint64(body[8:]), true
}

// findMark searches for a mark or a seal of this file after a bad frame. There is one only if the file was written
// further after a sync that covered the bad place: then it is damage, not the torn end of the last group.
func findMark(r io.ReaderAt, from, size int64, salt uint64) (at int64, found bool, err error) {
	const step = 1 << 20
	buf := make([]byte, step+markSize)
	for from < size {
		n, err := r.ReadAt(buf[:min(size-from, int64(len(buf)))], from)
		if err != nil && err != io.EOF {
			return 0, false, err
		}
		chunk := buf[:n]
		for i := 0; ; {
			k := bytes.Index(chunk[i:], signature[:])
			if k < 0 {
				break
			}
			at := i + k - frameSize // where its frame would begin
			i += k + 1
			if at < 0 || at+markSize > len(chunk) {
				continue
			}
			f := chunk[at : at+markSize]
			kind, value := Kind(f[8]), le.Uint64(f[frameSize+8:])
			good := le.Uint32(f) == 16 && checksum(salt, f, f[frameSize:]) == le.Uint32(f[4:])
			if good && (kind == kindSeal || kind == kindMark && value == uint64(from)+uint64(at)) {
				return from + int64(at), true, nil
			}
		}
		if n <= markSize {
			break
		}
		from += int64(n) - markSize // a mark may lie across the step
	}
	return 0, false, nil
}

// readFile scans one file of the folder and checks that its header matches its name.
func readFile(dir, name string, want header, maxRecord int, record func(Record) error) (scanned, error) {
	f, err := openFile(dir, name, os.O_RDONLY)
	if err != nil {
		return scanned{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return scanned{}, err
	}
	s, err := scan(name, f, info.Size(), maxRecord, record)
	if err == nil && (s.header.typ != want.typ || s.header.number != want.number) {
		err = fmt.Errorf("%w: %s has the header of number %d of type %d: the file was renamed", ErrCorrupt, name,
			s.header.number, s.header.typ)
	}
	return s, err
}
