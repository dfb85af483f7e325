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
)

// stage performs the steps of a write before its commit.
func stage(t *testing.T, x format, s fileSet, rows, partitions int) []writtenFile {
	t.Helper()
	must[preparation](t)(s.prepare(t.Context()))
	var files []writtenFile
	for i := range partitions {
		path := filepath.Join(s.staging(), partName(i, s.ID, s.Ext))
		files = append(files, must[writtenFile](t)(x.save(batchOf(rows*i/partitions, rows*(i+1)/partitions), path)))
	}
	return files
}

// The files of a process that crashes in the middle of a write are not read, or are read completely, and are removed by
// the next write.
func TestWriteCrash(t *testing.T) {
	eachFormat(t, func(t *testing.T, ctx context.Context, c *client.Client, x format) {
		for step, after := range []int{30, 30, 30, 12, 12, 12} {
			dir := t.TempDir()
			must[[]string](t)(x.write(rowsFrame(t, ctx, c, 30, 5), ctx, dir, WriteOptions{}))
			s := fileSet{Dir: dir, Ext: x.ext, ID: fmt.Sprintf("%016x", step), Overwrite: true}
			must[preparation](t)(s.prepare(t.Context()))
			if step > 0 { // one half of a file, and a complete one
				save(t, filepath.Join(s.staging(), ".part-00000.tmp"), []byte("half"))
				must[writtenFile](t)(x.save(batchOf(0, 1), filepath.Join(s.staging(), partName(0, s.ID, s.Ext))))
			}
			files := stage(t, x, s, 12, 3)
			if step == 2 {
				if err := os.Rename(s.staging(), s.staging()+discarded); err != nil {
					t.Fatal(err)
				}
			}
			if step >= 3 {
				now := must[*manifest](t)(readManifest(dir, x.ext))
				m := must[*manifest](t)(s.publish(now, files))
				if step >= 4 { // some of the old files are removed
					if err := os.Remove(filepath.Join(dir, m.Replaces[0])); err != nil {
						t.Fatal(err)
					}
				}
				if step == 5 { // some of the new files are moved
					if err := os.Rename(filepath.Join(s.staging(), m.Files[1].Name),
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
		s := fileSet{Dir: dir, Ext: x.ext, ID: "00000000000000aa"}
		stage(t, x, s, 20, 2)
		files := stage(t, x, s, 20, 2)
		for range 2 {
			if paths := must[[]string](t)(s.commit(ctx, files)); len(paths) != 2 {
				t.Errorf("paths %v, want 2", paths)
			}
			wantRead(t, ctx, c, x, dir, 20)
			wantFiles(t, dir, x, 2)
		}
		if committed, err := s.abort(preparation{}); !committed || err != nil {
			t.Errorf("abort after commit: %v, %v, want true", committed, err)
		}
		wantRead(t, ctx, c, x, dir, 20)

		fresh := filepath.Join(t.TempDir(), "x", "y")
		s = fileSet{Dir: fresh, Ext: x.ext, ID: "00000000000000bb"}
		p := must[preparation](t)(s.prepare(t.Context()))
		files = stage(t, x, s, 20, 2)
		for range 2 {
			if committed, err := s.abort(p); committed || err != nil {
				t.Errorf("abort: %v, %v, want false", committed, err)
			}
		}
		if _, err := x.save(batchOf(0, 5), filepath.Join(s.staging(), partName(0, s.ID, s.Ext))); !errors.Is(err,
			os.ErrNotExist) {
			t.Errorf("part after abort: %v, want %v", err, os.ErrNotExist)
		}
		if _, err := s.commit(ctx, files); err == nil {
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
		good := partName(0, id, x.ext)
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
			save(t, manifestPath(dir, x.ext), []byte(text))
			if _, err := x.read(ctx, c, dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir) {
				t.Errorf("read with manifest %s: %v, want ErrCorrupt", text, err)
			}
		}
		save(t, manifestPath(dir, x.ext), []byte(`{"version": 1, "id": "`+id+`", "replaces": ["../victim`+x.ext+`"]}`))
		if _, err := x.write(rowsFrame(t, ctx, c, 5, 1), ctx, dir, WriteOptions{Overwrite: true}); !errors.Is(err,
			ErrCorrupt) {
			t.Errorf("write: %v, want ErrCorrupt", err)
		}
		if b, err := os.ReadFile(victim); err != nil || string(b) != "keep" {
			t.Errorf("file outside of the folder: %q, %v", b, err)
		}
	})
}
