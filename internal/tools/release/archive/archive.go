// Package archive writes archives whose bytes depend on their contents alone: entries in the order of their names, one
// time stamp, no owners.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// File is an entry of an archive.
type File struct {
	Name string      // slash-separated, relative, without "." and ".."
	Mode fs.FileMode // permissions
	Data []byte
	// Records are PAX records of the entry in a tar archive.
	Records map[string]string
}

// Sorted returns the files in the order of their names. A name that is not clean and relative, or that occurs twice, is
// an error.
func Sorted(files []File) ([]File, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range files {
		if !fs.ValidPath(f.Name) || f.Name == "." {
			return nil, fmt.Errorf("archive: invalid name %q; use a clean relative path", f.Name)
		}
		if i > 0 && files[i-1].Name == f.Name {
			return nil, fmt.Errorf("archive: two files with the name %s; remove one", f.Name)
		}
	}
	return files, nil
}

// Under returns the files with a folder before their names.
func Under(folder string, files []File) []File {
	moved := slices.Clone(files)
	for i := range moved {
		moved[i].Name = path.Join(folder, moved[i].Name)
	}
	return moved
}

// Folders returns the folders that contain the files, parents first.
func Folders(files []File) []string {
	var folders []string
	for _, f := range files {
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			folders = append(folders, dir)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// Tar writes a tar archive of the files and their folders. The prefix, such as "./", stands before each name.
func Tar(w io.Writer, prefix string, files []File, at time.Time) error {
	t := tar.NewWriter(w)
	if err := entries(t, prefix, files, at); err != nil {
		return err
	}
	return t.Close()
}

// TarPart writes what Tar does, without the end of the archive: another archive can follow.
func TarPart(w io.Writer, prefix string, files []File, at time.Time) error {
	t := tar.NewWriter(w)
	if err := entries(t, prefix, files, at); err != nil {
		return err
	}
	return t.Flush()
}

func entries(t *tar.Writer, prefix string, files []File, at time.Time) error {
	files, err := Sorted(files)
	if err != nil {
		return err
	}
	headers := make([]*tar.Header, 0, len(files))
	data := map[string][]byte{}
	for _, dir := range Folders(files) {
		headers = append(headers, &tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir + "/", Mode: 0o755})
	}
	for _, f := range files {
		headers = append(headers, &tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.Name, Mode: int64(f.Mode.Perm()),
			Size: int64(len(f.Data)), PAXRecords: f.Records})
		data[prefix+f.Name] = f.Data
	}
	slices.SortFunc(headers, func(a, b *tar.Header) int { return cmp.Compare(a.Name, b.Name) })
	if prefix != "" {
		headers = slices.Insert(headers, 0, &tar.Header{Typeflag: tar.TypeDir, Name: prefix, Mode: 0o755})
	}
	for _, h := range headers {
		h.ModTime, h.Format, h.Uname, h.Gname = at.UTC().Truncate(time.Second), tar.FormatUSTAR, "root", "root"
		if len(h.Name) > 100 || len(h.PAXRecords) > 0 {
			h.Format = tar.FormatPAX
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("archive: %s: %w", h.Name, err)
		}
		if _, err := t.Write(data[h.Name]); err != nil {
			return fmt.Errorf("archive: %s: %w", h.Name, err)
		}
	}
	return nil
}

// Gzip returns the compressed form of what write writes.
func Gzip(write func(io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := write(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// TarGz returns a compressed tar archive of the files, see Tar.
func TarGz(prefix string, files []File, at time.Time) ([]byte, error) {
	return Gzip(func(w io.Writer) error { return Tar(w, prefix, files, at) })
}

// Zip returns a zip archive of the files, without entries for folders.
func Zip(files []File, at time.Time) ([]byte, error) {
	files, err := Sorted(files)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: at.UTC().Truncate(2 * time.Second)}
		h.SetMode(f.Mode.Perm())
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(f.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("archive: %s: %w", f.Name, err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Name returns a file name of words joined with "-", without the empty ones.
func Name(words ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), "-")
}
