package frame

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/parquet"
	"go.millstream.dev/frame/internal/scan"
	"go.millstream.dev/internal/testkit/leak"
)

// format is one format to write and read frames.
type format struct {
	ext   string
	write func(f *Frame, ctx context.Context, dir string, opts WriteOptions) ([]string, error)
	read  func(ctx context.Context, c *client.Client, path string) (*Frame, error)
	save  func(b arrow.RecordBatch, path string) (files.Written, error)
}

var formats = []format{
	{".arrow", (*Frame).WriteIPC, ReadIPC, scan.WriteIPC},
	{".csv", (*Frame).WriteCSV, func(ctx context.Context, c *client.Client, path string) (*Frame, error) {
		return ReadCSV(ctx, c, path, CSVOptions{Schema: people})
	}, scan.WriteCSV},
	{".parquet", func(f *Frame, ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
		return f.WriteParquet(ctx, dir, ParquetWriteOptions{Overwrite: opts.Overwrite})
	}, func(ctx context.Context, c *client.Client, path string) (*Frame, error) {
		return ReadParquet(ctx, c, path, ParquetOptions{})
	}, func(b arrow.RecordBatch, path string) (files.Written, error) {
		return scan.WriteParquet(b, path, parquet.WriteOptions{})
	}},
}

// eachFormat runs a test with every format.
func eachFormat(t *testing.T, f func(t *testing.T, ctx context.Context, c *client.Client, x format)) {
	for _, x := range formats {
		t.Run(x.ext[1:], func(t *testing.T) {
			leak.Check(t)
			ctx, c := connect(t, cluster.Goroutines)
			f(t, ctx, c, x)
		})
	}
}

// rowsFrame returns rows 0 to rows in a number of partitions.
func rowsFrame(t testing.TB, ctx context.Context, c *client.Client, rows, partitions int) *Frame {
	t.Helper()
	var batches []arrow.RecordBatch
	for i := range partitions {
		batches = append(batches, batchOf(rows*i/partitions, rows*(i+1)/partitions))
	}
	f, err := FromBatches(ctx, c, batches)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wantRead fails the test unless a path has the rows 0 to rows.
func wantRead(t *testing.T, ctx context.Context, c *client.Client, x format, path string, rows int) {
	t.Helper()
	f, err := x.read(ctx, c, path)
	if err != nil {
		t.Errorf("read %s: %v, want %d rows", path, err, rows)
		return
	}
	defer f.Release()
	same(t, ctx, path, f, batchOf(0, rows))
}

// wantFiles fails the test unless a folder has the given number of parts, the manifest, and the named files, and
// nothing hidden.
func wantFiles(t *testing.T, dir string, x format, parts int, others ...string) {
	t.Helper()
	var got []string
	n := 0
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		if files.IsPart(e.Name()) {
			n++
		} else {
			got = append(got, e.Name())
		}
	}
	want := append([]string{filepath.Base(files.ManifestPath(dir, x.ext))}, others...)
	slices.Sort(want)
	slices.Sort(got)
	if n != parts || !slices.Equal(got, want) {
		t.Errorf("%s: got %d parts and %q, want %d and %q", dir, n, got, parts, want)
	}
}

// With Overwrite a second result of another size replaces the first, and never mixes with it.
func TestWriteTwice(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		long, short := rowsFrame(t, ctx, c, 106, 6), rowsFrame(t, ctx, c, 15, 2)
		paths := must[[]string](t)(x.write(long, ctx, dir, WriteOptions{}))
		if len(paths) != 6 {
			t.Errorf("paths %v, want 6", paths)
		}
		for i, p := range paths {
			if _, err := os.Stat(p); err != nil || !strings.HasPrefix(filepath.Base(p), fmt.Sprintf("part-%05d-", i)) {
				t.Errorf("path %d is %s: %v", i, p, err)
			}
		}
		wantRead(t, ctx, c, x, dir, 106)
		wantRead(t, ctx, c, x, filepath.Join(dir, "part-*"+x.ext), 106)
		save(t, filepath.Join(dir, "notes.txt"), []byte("mine"))
		save(t, filepath.Join(dir, "mine"+x.ext), []byte("mine too"))

		_, err := x.write(short, ctx, dir, WriteOptions{})
		if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "Overwrite") ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("second write: %v, want ErrExists that names %s and Overwrite", err, dir)
		}
		wantRead(t, ctx, c, x, dir, 106)
		for _, n := range []struct{ rows, partitions int }{{15, 2}, {106, 6}, {1, 1}, {40, 7}} {
			f := rowsFrame(t, ctx, c, n.rows, n.partitions)
			if paths := must[[]string](t)(x.write(f, ctx, dir,
				WriteOptions{Overwrite: true})); len(paths) != n.partitions {
				t.Errorf("paths %v, want %d", paths, n.partitions)
			}
			wantRead(t, ctx, c, x, dir, n.rows)
			wantRead(t, ctx, c, x, filepath.Join(dir, "part-*"+x.ext), n.rows)
			wantFiles(t, dir, x, n.partitions, "notes.txt", "mine"+x.ext)
		}
		// A result of the other format is independent.
		other := formats[0]
		if other.ext == x.ext {
			other = formats[1]
		}
		must[[]string](t)(other.write(short, ctx, filepath.Join(dir, "both"), WriteOptions{}))
		must[[]string](t)(x.write(long, ctx, filepath.Join(dir, "both"), WriteOptions{}))
		wantRead(t, ctx, c, other, filepath.Join(dir, "both"), 15)
		wantRead(t, ctx, c, x, filepath.Join(dir, "both"), 106)
		// A frame without partitions is a result, too.
		none := must[*Frame](t)(New(ctx, c, people, nil))
		must[[]string](t)(x.write(none, ctx, dir, WriteOptions{Overwrite: true}))
		wantRead(t, ctx, c, x, dir, 0)
	})
}

// Results of versions without manifests are read, and replaced.
func TestWriteOverOldResult(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		if x.ext == ".parquet" {
			return // parts without an ID are those of other programs
		}
		dir := t.TempDir()
		for i := range 4 {
			if _, err := x.save(batchOf(10*i, 10*i+10), filepath.Join(dir,
				fmt.Sprintf("part-%05d%s", i, x.ext))); err != nil {
				t.Fatal(err)
			}
		}
		wantRead(t, ctx, c, x, dir, 40)
		wantRead(t, ctx, c, x, filepath.Join(dir, "*"+x.ext), 40)
		f := rowsFrame(t, ctx, c, 7, 2)
		if _, err := x.write(f, ctx, dir, WriteOptions{}); !errors.Is(err, ErrExists) {
			t.Errorf("write: %v, want ErrExists", err)
		}
		wantRead(t, ctx, c, x, dir, 40)
		must[[]string](t)(x.write(f, ctx, dir, WriteOptions{Overwrite: true}))
		wantRead(t, ctx, c, x, dir, 7)
		wantFiles(t, dir, x, 2)
	})
}

// testGate returns batches when a file exists, and fails for partitions that begin with row 40. It ignores its context,
// as a busy function does.
var testGate = NewMapWith("test.gate", func(_ context.Context, b arrow.RecordBatch, gate string) (arrow.RecordBatch,
	error) {
	if id := b.Column(0).ValueStr(0); id == "40" {
		return nil, errors.New("partition 40 rejected")
	}
	for {
		if _, err := os.Stat(gate); err == nil {
			b.Retain()
			return b, nil
		}
		time.Sleep(time.Millisecond)
	}
})

// A write that fails, or whose context ends, leaves the folder unchanged, also when partitions end later.
func TestWriteFails(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		for _, tc := range []struct {
			name string
			rows int // with 80 or more the second partition fails
			want string
		}{{"a partition fails", 80, "rejected"}, {"context ends", 40, context.Canceled.Error()}} {
			t.Run(tc.name, func(t *testing.T) {
				top := t.TempDir()
				gate := filepath.Join(top, "gate")
				f := rowsFrame(t, ctx, c, tc.rows, 2)
				slow := must[*Frame](t)(f.Map(ctx, testGate(client.Val(gate)), people))
				old := filepath.Join(top, "old")
				must[[]string](t)(x.write(f, ctx, old, WriteOptions{}))
				for _, dir := range []string{old, filepath.Join(top, "fresh", "folder")} {
					sub, cancel := context.WithCancel(ctx)
					if tc.want == context.Canceled.Error() {
						go func() { // during the write: when the staging folder exists
							for sub.Err() == nil {
								if found, _ := filepath.Glob(filepath.Join(dir, ".millstream*")); len(found) > 0 {
									cancel()
								}
								time.Sleep(time.Millisecond)
							}
						}()
					}
					paths, err := x.write(slow, sub, dir, WriteOptions{Overwrite: true})
					cancel()
					if err == nil || !strings.Contains(err.Error(), tc.want) {
						t.Errorf("write: %v, %v, want an error with %q", paths, err, tc.want)
					}
				}
				save(t, gate, nil)
				_ = slow.Persist(ctx) // all waiting tasks have ended
				if _, err := os.Stat(filepath.Join(top, "fresh")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("folder of a write that failed: %v, want none", err)
				}
				wantRead(t, ctx, c, x, old, tc.rows)
				wantFiles(t, old, x, 2)
			})
		}
	})
}

// While results replace each other readers see one of them, or an error that names the fix.
func TestWriteUnderReaders(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		dir := filepath.Join(t.TempDir(), "result")
		sizes := []struct{ rows, partitions int }{{90, 9}, {20, 2}}
		frames := []*Frame{rowsFrame(t, ctx, c, 90, 9), rowsFrame(t, ctx, c, 20, 2)}
		must[[]string](t)(x.write(frames[0], ctx, dir, WriteOptions{}))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, path := range []string{dir, filepath.Join(dir, "part-*"+x.ext)} {
			wg.Go(func() {
				complete, replaced := 0, 0
				for last := false; !last; {
					select {
					case <-stop:
						last = true // no write replaces what is read now
					default:
					}
					f, err := x.read(ctx, c, path)
					if err != nil {
						t.Errorf("read %s: %v", path, err)
						return
					}
					rows, err := f.NumRows(ctx)
					f.Release()
					switch {
					case err != nil && errors.Is(err, ErrCorrupt) &&
						strings.Contains(err.Error(), "make the frame again"):
						replaced++
					case err != nil || rows != 90 && rows != 20:
						t.Errorf("read %s: %d rows, %v, want 90 or 20", path, rows, err)
						return
					default:
						complete++
					}
				}
				if complete == 0 {
					t.Errorf("%s: no complete result was read (%d were replaced)", path, replaced)
				}
			})
		}
		for i := range 12 {
			n := (i + 1) % 2
			if _, err := x.write(frames[n], ctx, dir, WriteOptions{Overwrite: true}); err != nil {
				t.Error(err)
			}
			wantFiles(t, dir, x, sizes[n].partitions)
		}
		close(stop)
		wg.Wait()
	})
}

// Of several concurrent writes into one folder some fail, and the result is that of one.
func TestWriteAtOnce(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		for _, overwrite := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "result")
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				f := rowsFrame(t, ctx, c, 10*(i+1), 2+i)
				wg.Go(func() { _, errs[i] = x.write(f, ctx, dir, WriteOptions{Overwrite: overwrite}) })
			}
			wg.Wait()
			var rows []int64
			for i, err := range errs {
				if err == nil {
					rows = append(rows, int64(10*(i+1)))
				} else if !errors.Is(err, ErrExists) && !strings.Contains(err.Error(), "another write into the "+
					"folder ended first") {
					t.Errorf("write %d: %v", i, err)
				}
			}
			if len(rows) == 0 || !overwrite && len(rows) > 1 {
				t.Fatalf("overwrite %v: %d writes succeeded: %v", overwrite, len(rows), errs)
			}
			f := must[*Frame](t)(x.read(ctx, c, dir))
			if got := must[int64](t)(f.NumRows(ctx)); !slices.Contains(rows, got) {
				t.Errorf("overwrite %v: %d rows, want those of one of %v", overwrite, got, rows)
			}
			f.Release()
			// The next write leaves only its own files.
			must[[]string](t)(x.write(rowsFrame(t, ctx, c, 5, 1), ctx, dir, WriteOptions{Overwrite: true}))
			wantRead(t, ctx, c, x, dir, 5)
			wantFiles(t, dir, x, 1)
		}
	})
}
