package spans

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A folder has these files. Blocks are appended to segments, of which the oldest is removed when the folder is full.
// Names, which blocks refer to, are appended to their file before the blocks. What changes in place is in the state.
const (
	lockFile      = "lock"
	namesFile     = "names.log"
	stateFile     = "state"
	segmentPrefix = "spans-"
	segmentSuffix = ".log"

	maxSegments    = 16 // that the limit has room for
	minSegmentSize = 64 << 10
)

// ErrInUse is returned by Open for a folder that another Store has open.
var ErrInUse = errors.New("spans: history in use")

// disk is the files of a history.
type disk struct {
	dir         string
	lock        *os.File
	names       *os.File
	namesSize   int64
	stateSize   int64
	segments    []*segment // oldest first
	segmentSize int64
	limit       int64
}

// segment is a file of blocks.
type segment struct {
	file   *os.File
	number uint64
	size   int64
}

// openDisk opens a folder, and creates it if there is none.
func openDisk(dir string, limit int64) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spans: history: %w", err)
	}
	d := &disk{dir: dir, limit: limit, segmentSize: max(limit/maxSegments, minSegmentSize)}
	var err error
	if d.lock, err = os.OpenFile(d.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("spans: history: %w", err)
	}
	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		d.close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s; stop the scheduler that writes it, or use another folder", ErrInUse, dir)
		}
		return nil, fmt.Errorf("spans: history: lock %s: %w", dir, err)
	}
	if d.names, err = os.OpenFile(d.path(namesFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		d.close()
		return nil, fmt.Errorf("spans: history: %w", err)
	}
	if err := d.openSegments(); err != nil {
		d.close()
		return nil, fmt.Errorf("spans: history: %w", err)
	}
	return d, nil
}

func (d *disk) path(name string) string { return filepath.Join(d.dir, name) }

func (d *disk) segmentPath(number uint64) string {
	return d.path(fmt.Sprintf("%s%012d%s", segmentPrefix, number, segmentSuffix))
}

func (d *disk) openSegments() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), segmentPrefix)
		if text, ok = cutSuffix(text, segmentSuffix, ok); !ok {
			continue
		}
		number, err := strconv.ParseUint(text, 10, 64)
		if err != nil || !e.Type().IsRegular() {
			continue
		}
		f, err := os.OpenFile(d.path(e.Name()), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		d.segments = append(d.segments, &segment{file: f, number: number})
	}
	slices.SortFunc(d.segments, func(a, b *segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return nil
}

func cutSuffix(text, suffix string, ok bool) (string, bool) {
	text, found := strings.CutSuffix(text, suffix)
	return text, ok && found
}

// readBlocks returns the headers of the blocks of all segments. What follows a damaged header is ignored, and
// overwritten in the last segment.
func (d *disk) readBlocks() ([]*block, error) {
	var blocks []*block
	for _, seg := range d.segments {
		info, err := seg.file.Stat()
		if err != nil {
			return nil, err
		}
		var buf [headerSize]byte
		for {
			if _, err := seg.file.ReadAt(buf[:], seg.size); err != nil {
				if errors.Is(err, io.EOF) {
					break
				}
				return nil, err
			}
			h, ok := parseHeader(buf[:])
			if !ok || seg.size+h.size() > info.Size() {
				break
			}
			blocks = append(blocks, &block{header: h, segment: seg, offset: seg.size})
			seg.size += h.size()
		}
	}
	return blocks, nil
}

// append writes the names that are not on disk yet, and a block.
func (d *disk) append(b *block, data []byte, names *names) error {
	if err := d.saveNames(names); err != nil {
		return err
	}
	var seg *segment
	if n := len(d.segments); n > 0 {
		seg = d.segments[n-1]
	}
	if seg == nil || seg.size > 0 && seg.size+int64(len(data)) > d.segmentSize {
		next := &segment{}
		if seg != nil {
			next.number = seg.number + 1
		}
		var err error
		next.file, err = os.OpenFile(d.segmentPath(next.number), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("spans: history: %w", err)
		}
		d.segments = append(d.segments, next)
		seg = next
	}
	if _, err := seg.file.WriteAt(data, seg.size); err != nil {
		return fmt.Errorf("spans: history: %w", err)
	}
	b.segment, b.offset = seg, seg.size
	seg.size += int64(len(data))
	return nil
}

// saveNames appends new names to their file.
func (d *disk) saveNames(n *names) error {
	n.mu.Lock()
	p := n.unsaved
	n.unsaved = nil
	n.mu.Unlock()
	if len(p) == 0 {
		return nil
	}
	if _, err := d.names.WriteAt(p, d.namesSize); err != nil {
		n.mu.Lock()
		n.unsaved = append(p, n.unsaved...)
		n.mu.Unlock()
		return fmt.Errorf("spans: history: %w", err)
	}
	d.namesSize += int64(len(p))
	return nil
}

// size returns the size of the folder.
func (d *disk) size() int64 {
	n := d.namesSize + d.stateSize
	for _, seg := range d.segments {
		n += seg.size
	}
	return n
}

// drop removes the oldest segments if the folder is too large, and returns how many blocks they had.
func (d *disk) drop(blocks []*block) int {
	n := 0
	for d.size() > d.limit && len(d.segments) > 1 {
		oldest := d.segments[0]
		for n < len(blocks) && blocks[n].segment == oldest {
			n++
		}
		oldest.file.Close()
		_ = os.Remove(d.segmentPath(oldest.number)) // else the next Open drops it
		d.segments = slices.Delete(d.segments, 0, 1)
	}
	return n
}

// writeState replaces the state.
func (d *disk) writeState(p []byte) error {
	tmp := d.path(stateFile + ".new")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("spans: history: %w", err)
	}
	_, err = f.Write(p)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, d.path(stateFile))
	}
	if err != nil {
		return fmt.Errorf("spans: history: %w", err)
	}
	d.stateSize = int64(len(p))
	return nil
}

// sync writes all to the device.
func (d *disk) sync() error {
	err := d.names.Sync()
	if n := len(d.segments); n > 0 {
		err = errors.Join(err, d.segments[n-1].file.Sync())
	}
	return err
}

func (d *disk) close() {
	for _, seg := range d.segments {
		seg.file.Close()
	}
	if d.names != nil {
		d.names.Close()
	}
	d.lock.Close()
}
