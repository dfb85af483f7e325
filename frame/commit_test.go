package frame

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/files"
)

// stage performs the steps of a write before its commit.
func stage(t *testing.T, x format, s files.Set, rows, partitions int) []files.Written {
	t.Helper()
	must[files.Preparation](t)(s.Prepare(t.Context()))
	var written []files.Written
	for i := range partitions {
		path := filepath.Join(s.Staging(), files.PartName(i, s.ID, s.Ext))
		written = append(written, must[files.Written](t)(x.save(batchOf(rows*i/partitions,
			rows*(i+1)/partitions), path)))
	}
	return written
}

// The files of a process that crashes in the middle of a write are not read, or are read completely, and are removed by
// the next write.
func TestWriteCrash(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		for step, after := range []int{30, 30, 30, 12, 12, 12} {
			dir := t.TempDir()
			must[[]string](t)(x.write(rowsFrame(t, ctx, c, 30, 5), ctx, dir, WriteOptions{}))
			s := files.Set{Dir: dir, Ext: x.ext, ID: fmt.Sprintf("%016x", step), Overwrite: true}
			must[files.Preparation](t)(s.Prepare(t.Context()))
			if step > 0 { // one half of a file, and a complete one
				save(t, filepath.Join(s.Staging(), ".part-00000.tmp"), []byte("half"))
				must[files.Written](t)(x.save(batchOf(0, 1), filepath.Join(s.Staging(),
					files.PartName(0, s.ID, s.Ext))))
			}
			written := stage(t, x, s, 12, 3)
			if step == 2 {
				if err := os.Rename(s.Staging(), s.Staging()+files.Discarded); err != nil {
					t.Fatal(err)
				}
			}
			if step >= 3 {
				now := must[*files.Manifest](t)(files.ReadManifest(dir, x.ext))
				m := must[*files.Manifest](t)(s.Publish(now, written))
				if step >= 4 { // some of the old files are removed
					if err := os.Remove(filepath.Join(dir, m.Replaces[0])); err != nil {
						t.Fatal(err)
					}
				}
				if step == 5 { // some of the new files are moved
					if err := os.Rename(filepath.Join(s.Staging(), m.Files[1].Name),
						filepath.Join(dir, m.Files[1].Name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			wantRead(t, ctx, c, x, dir, after)
			wantRead(t, ctx, c, x, filepath.Join(dir, "part-*"), after)
			if _, err := x.write(rowsFrame(t, ctx, c, 8, 2), ctx, dir, WriteOptions{}); !errors.Is(err, ErrExists) {
				t.Errorf("step %d: write: %v, want ErrExists", step, err)
			}
			wantRead(t, ctx, c, x, dir, after)
			must[[]string](t)(x.write(rowsFrame(t, ctx, c, 8, 2), ctx, dir, WriteOptions{Overwrite: true}))
			wantRead(t, ctx, c, x, dir, 8)
			wantFiles(t, dir, x, 2)
		}
	})
}

// Steps that run twice, as tasks of a lost worker do, have the same result. After an abort nothing can be written.
func TestWriteSteps(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		dir := filepath.Join(t.TempDir(), "new", "folder")
		s := files.Set{Dir: dir, Ext: x.ext, ID: "00000000000000aa"}
		stage(t, x, s, 20, 2)
		written := stage(t, x, s, 20, 2)
		for range 2 {
			if paths := must[[]string](t)(s.Commit(ctx, written)); len(paths) != 2 {
				t.Errorf("paths %v, want 2", paths)
			}
			wantRead(t, ctx, c, x, dir, 20)
			wantFiles(t, dir, x, 2)
		}
		if committed, err := s.Abort(files.Preparation{}); !committed || err != nil {
			t.Errorf("abort after commit: %v, %v, want true", committed, err)
		}
		wantRead(t, ctx, c, x, dir, 20)

		fresh := filepath.Join(t.TempDir(), "x", "y")
		s = files.Set{Dir: fresh, Ext: x.ext, ID: "00000000000000bb"}
		p := must[files.Preparation](t)(s.Prepare(t.Context()))
		written = stage(t, x, s, 20, 2)
		for range 2 {
			if committed, err := s.Abort(p); committed || err != nil {
				t.Errorf("abort: %v, %v, want false", committed, err)
			}
		}
		if _, err := x.save(batchOf(0, 5), filepath.Join(s.Staging(), files.PartName(0, s.ID, s.Ext))); !errors.Is(err,
			os.ErrNotExist) {
			t.Errorf("part after abort: %v, want %v", err, os.ErrNotExist)
		}
		if _, err := s.Commit(ctx, written); err == nil {
			t.Error("commit after abort: got no error")
		}
		if _, err := os.Stat(filepath.Dir(fresh)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder after abort: %v, want none", err)
		}
	})
}

// A manifest may only name parts of its own write in its folder.
func TestManifestRejected(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		const id = "0123456789abcdef"
		top := t.TempDir()
		dir := filepath.Join(top, "result")
		victim := save(t, filepath.Join(top, "victim"+x.ext), []byte("keep"))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		good := files.PartName(0, id, x.ext)
		for _, text := range []string{
			"", "{}", "[1]", "null", `{"version": 2}`,
			`{"version": 1, "id": "` + id + `", "files": [{"name": "../victim` + x.ext + `"}]}`,
			`{"version": 1, "id": "` + id + `", "files": [{"name": "` + victim + `"}]}`,
			`{"version": 1, "id": "../../x", "files": [{"name": "part-00000-../../x` + x.ext + `"}]}`,
			`{"version": 1, "id": "` + id + `", "files": [{"name": "` + good + `"}, {"name": "` + good + `"}]}`,
			`{"version": 1, "id": "` + id + `", "replaces": ["../victim` + x.ext + `"]}`,
			`{"version": 1, "id": "` + id + `", "replaces": ["victim` + x.ext + `"]}`,
			`{"version": 1, "id": "` + id + `", "files": [{"name": "` + good + `"}]}`, // which does not exist
		} {
			save(t, files.ManifestPath(dir, x.ext), []byte(text))
			if _, err := x.read(ctx, c, dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir) {
				t.Errorf("read with manifest %s: %v, want ErrCorrupt", text, err)
			}
		}
		save(t, files.ManifestPath(dir, x.ext), []byte(`{"version": 1, "id": "`+id+`", "replaces": ["../victim`+x.ext+`"]}`))
		if _, err := x.write(rowsFrame(t, ctx, c, 5, 1), ctx, dir, WriteOptions{Overwrite: true}); !errors.Is(err,
			ErrCorrupt) {
			t.Errorf("write: %v, want ErrCorrupt", err)
		}
		if b, err := os.ReadFile(victim); err != nil || string(b) != "keep" {
			t.Errorf("file outside of the folder: %q, %v", b, err)
		}
	})
}
