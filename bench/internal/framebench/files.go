package framebench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// write writes the partitions of a table as Arrow IPC files, which all sides read, and returns their size in bytes.
func (t table) write(dir string, threads int) (int64, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	parts := max(1, min(t.parts, t.rows))
	sizes, errs := make([]int64, parts), make([]error, parts)
	var wait sync.WaitGroup
	slots := make(chan struct{}, threads)
	for i := range parts {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			b := t.batch(t.rows*i/parts, t.rows*(i+1)/parts)
			defer b.Release()
			sizes[i] = bytesOf(b)
			errs[i] = writeFile(filepath.Join(dir, fmt.Sprintf("part-%05d.arrow", i)), t.schema, b)
		})
	}
	wait.Wait()
	var total int64
	for _, n := range sizes {
		total += n
	}
	return total, errors.Join(errs...)
}

// bytesOf returns the size of the values of a batch that is not a slice.
func bytesOf(b arrow.RecordBatch) int64 {
	var n int64
	for _, c := range b.Columns() {
		for _, buffer := range c.Data().Buffers() {
			if buffer != nil {
				n += int64(buffer.Len())
			}
		}
	}
	return n
}

func writeFile(path string, s *arrow.Schema, batches ...arrow.RecordBatch) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(s))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	for _, b := range batches {
		err = errors.Join(err, w.Write(b))
	}
	return errors.Join(err, w.Close(), f.Close())
}

// readFiles passes the batches of Arrow IPC files on, which are valid until it returns.
func readFiles(paths []string, use func(arrow.RecordBatch) error) error {
	for _, path := range paths {
		if err := readFile(path, use); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

func readFile(path string, use func(arrow.RecordBatch) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	if err != nil {
		return err
	}
	defer r.Close()
	for i := range r.NumRecords() {
		b, err := r.RecordBatch(i)
		if err != nil {
			return err
		}
		if err := use(b); err != nil {
			return err
		}
	}
	return nil
}
