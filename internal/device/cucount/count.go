package cucount

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// The layout of native/cucount.c: counters, then names.
const (
	entries   = 512
	nameBytes = 64
	fileBytes = entries * (8 + nameBytes)
)

// Counts is the number of calls of each driver function since the start of its process.
type Counts map[string]uint64

// Mappings returns the number of calls that mapped memory of another process, of any kind: legacy handles, virtual
// memory, memory pools.
func (c Counts) Mappings() uint64 {
	return c["cuIpcOpenMemHandle"] + c["cuIpcOpenMemHandle_v2"] + c["cuMemImportFromShareableHandle"] +
		c["cuMemPoolImportPointer"]
}

// Total returns the number of all calls.
func (c Counts) Total() uint64 {
	var n uint64
	for _, v := range c {
		n += v
	}
	return n
}

// Since returns the calls after an earlier snapshot. Functions that were not called are left out.
func (c Counts) Since(before Counts) Counts {
	d := Counts{}
	for name, n := range c {
		if n != before[name] {
			d[name] = n - before[name]
		}
	}
	return d
}

// Reader reads the counters of one process, while it runs or afterwards.
type Reader struct{ file *os.File }

// Open opens the counters of this process. It fails if the process was not started with [Env].
func Open() (*Reader, error) {
	dir := os.Getenv(DirVariable)
	if dir == "" {
		return nil, fmt.Errorf("cucount: this process does not count: %s is not set", DirVariable)
	}
	return OpenPID(dir, os.Getpid())
}

// OpenPID opens the counters of another process by its directory.
func OpenPID(dir string, pid int) (*Reader, error) {
	f, err := os.Open(filepath.Join(dir, strconv.Itoa(pid)))
	if err != nil {
		return nil, fmt.Errorf("cucount: process %d does not count: %w", pid, err)
	}
	return &Reader{f}, nil
}

// Read returns the current counters.
func (r *Reader) Read() (Counts, error) {
	data := make([]byte, fileBytes)
	if _, err := r.file.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cucount: %w", err)
	}
	return parse(data), nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// parse parses the counters of a file, which has fileBytes.
func parse(data []byte) Counts {
	c := Counts{}
	for i := range entries {
		name := data[entries*8+i*nameBytes:][:nameBytes]
		if end := bytes.IndexByte(name, 0); end > 0 {
			c[string(name[:end])] = binary.LittleEndian.Uint64(data[i*8:])
		}
	}
	return c
}
