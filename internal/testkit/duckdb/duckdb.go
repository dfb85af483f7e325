// Package duckdb runs DuckDB for tests that compare its answers with those of frames.
package duckdb

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

//go:embed server.py
var server string

// DB is a DuckDB process with a database in memory. Its methods may be called by several goroutines.
type DB struct {
	t   testing.TB
	dir string
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

// Start starts DuckDB until the end of the test.
func Start(t testing.TB) *DB {
	t.Helper()
	python := os.Getenv("MILLSTREAM_DUCKDB")
	if python == "" {
		t.Fatal("MILLSTREAM_DUCKDB is not set; run scripts/setup duckdb, and the test with scripts/in-env")
	}
	cmd := exec.Command(python, "-c", server)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("duckdb: the process failed: %v", err)
		}
	})
	return &DB{t: t, dir: t.TempDir(), in: in, out: bufio.NewReader(out)}
}

// ask sends a request and waits for the answer.
func (d *DB) ask(request map[string]string) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := d.in.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("duckdb: write to the process: %w", err)
	}
	line, err := d.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("duckdb: read from the process: %w", err)
	}
	var answer struct{ Error string }
	if err := json.Unmarshal(line, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New("duckdb: " + answer.Error)
	}
	return nil
}

// path returns the path of another file. The caller holds the lock.
func (d *DB) path() string {
	d.n++
	return filepath.Join(d.dir, fmt.Sprintf("%d.arrow", d.n))
}

// Table makes batches of one schema a table.
func (d *DB) Table(name string, batches ...arrow.RecordBatch) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.path()
	if err := writeFile(path, batches); err != nil {
		d.t.Fatal(err)
	}
	if err := d.ask(map[string]string{"table": name, "path": path}); err != nil {
		d.t.Fatal(err)
	}
}

func writeFile(path string, batches []arrow.RecordBatch) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(batches[0].Schema()))
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), f.Close())
}

// Exec runs a statement without a result, such as CREATE VIEW.
func (d *DB) Exec(sql string) {
	d.t.Helper()
	if _, err := d.Try(sql); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// Query returns the rows of a statement.
func (d *DB) Query(sql string) Rows {
	d.t.Helper()
	rows, err := d.Try(sql)
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// Try returns the rows of a statement, or the error of DuckDB.
func (d *DB) Try(sql string) (Rows, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.path()
	if err := d.ask(map[string]string{"sql": sql, "path": path}); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer os.Remove(path)
	r, err := ipc.NewFileReader(f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out Rows
	for i := range r.NumRecords() {
		b, err := r.RecordBatch(i)
		if err != nil {
			return nil, err
		}
		out = append(out, RowsOf(b)...)
	}
	return out, nil
}
