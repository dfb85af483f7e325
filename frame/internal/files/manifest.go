package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"go.millstream.dev/frame/internal/fault"
)

// The files of one write are a set. While it is written its parts are in a hidden staging folder in the folder of the
// result. The set exists from the moment when its manifest replaces the previous one, by a rename; then the parts of
// the previous set are removed, and those of the new one are moved from the staging folder to the folder. Readers take
// the names from the manifest and find a part in either place. Names contain the ID of their write, so that parts of
// different sets are never confused. In a folder without a manifest all files are read.
//
//	_millstream.arrow.json                         manifest
//	part-00000-5c1f0b7c6a1e9d42.arrow              part
//	.millstream.arrow-5c1f0b7c6a1e9d42/part-…      part that is not in its place yet

// Manifest describes the last set of a format in a folder.
type Manifest struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Files   []File `json:"files"`
	// Replaces has the names of files of earlier sets that may still exist.
	Replaces []string `json:"replaces,omitempty"`
}

type File struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

const (
	manifestVersion = 1
	// maxManifest bounds the size of a manifest in bytes: that of a million files is smaller.
	maxManifest = 256 << 20
	// Discarded is appended to the name of a staging folder that is being removed.
	Discarded = ".discarded"
	// written matches the extensions of files that frames write.
	written = `(\.arrow|\.csv|\.parquet|\.ndjson)`
)

var (
	partPattern = regexp.MustCompile(`^part-[0-9]{5,9}-([0-9a-f]{16})` + written + `$`)
	// Names without the ID of a write are those of versions without manifests.
	oldPartPattern  = regexp.MustCompile(`^part-[0-9]{5,9}(\.arrow|\.csv)$`)
	manifestPattern = regexp.MustCompile(`^_millstream` + written + `\.json$`)
	stagingPattern  = regexp.MustCompile(`^\.millstream` + written + `-([0-9a-f]{16})(?:\.discarded)?$`)

	// errReplaced is returned when a set is replaced while it is read.
	errReplaced = errors.New("replaced by another write")
)

// PartName returns the name of the file of a partition.
func PartName(partition int, id, ext string) string {
	return fmt.Sprintf("part-%05d-%s%s", partition, id, ext)
}

// IsPart reports whether a name is that of a part of a set.
func IsPart(name string) bool { return partPattern.MatchString(name) }

func isManifest(name string) bool { return manifestPattern.MatchString(name) }

// ManifestPath returns the path of the manifest of a folder for an extension.
func ManifestPath(dir, ext string) string { return filepath.Join(dir, "_millstream"+ext+".json") }

func stagingPath(dir, ext, id string) string { return filepath.Join(dir, ".millstream"+ext+"-"+id) }

// stagedPath returns the path of a part before it is moved to its final path. It returns false for files that are not
// parts.
func stagedPath(path string) (string, bool) {
	m := partPattern.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return "", false
	}
	return filepath.Join(stagingPath(filepath.Dir(path), m[2], m[1]), filepath.Base(path)), true
}

// eitherPlace calls f with the path of a part, with its path in the staging folder if the first does not exist, and
// with the first again in case the part was moved meanwhile.
func eitherPlace[T any](path string, f func(string) (T, error)) (T, error) {
	v, err := f(path)
	staged, ok := stagedPath(path)
	if !ok || !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if v, err := f(staged); !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	return f(path)
}

// Open opens a file, which may be a part that is still in its staging folder.
func Open(path string) (*os.File, error) { return eitherPlace(path, os.Open) }

func statPart(path string) (fs.FileInfo, error) { return eitherPlace(path, os.Stat) }

// ReadManifest returns the manifest of a folder, nil if there is none.
func ReadManifest(dir, ext string) (*Manifest, error) {
	path := ManifestPath(dir, ext)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("frame: %w", err)
	}
	defer f.Close()
	corrupt := func(reason string, err error) error {
		return &fault.Error{Kind: fault.ErrCorrupt, Path: path, Partition: -1, Reason: reason, Err: err}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, corrupt("cannot read manifest", err)
	}
	if len(b) > maxManifest {
		return nil, corrupt(fmt.Sprintf("manifest of more than %d bytes", maxManifest), nil)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, corrupt("invalid manifest", err)
	}
	if m.Version != manifestVersion {
		return nil, corrupt(fmt.Sprintf("manifest of version %d, want %d; read it with the release that wrote it",
			m.Version, manifestVersion), nil)
	}
	if err := m.check(ext); err != nil {
		return nil, corrupt("invalid manifest", err)
	}
	return m, nil
}

// check returns an error for names that no write makes: a manifest decides which files are read and removed.
func (m *Manifest) check(ext string) error {
	for i, f := range m.Files {
		if f.Name != PartName(i, m.ID, ext) || !IsPart(f.Name) {
			return fmt.Errorf("file %d is named %q, want %q", i, f.Name, PartName(i, m.ID, ext))
		}
	}
	for _, name := range m.Replaces {
		if !IsPart(name) && !oldPartPattern.MatchString(name) || filepath.Ext(name) != ext {
			return fmt.Errorf("%q is not the name of a part", name)
		}
	}
	return nil
}

func (m *Manifest) names() []string {
	names := make([]string, len(m.Files))
	for i, f := range m.Files {
		names[i] = f.Name
	}
	return names
}

// manifestNames returns the names of the parts of a folder's set. It returns false if there is no manifest for any of
// the extensions. The error is errReplaced if the set was replaced meanwhile.
func manifestNames(dir string, ext []string) (names []string, found bool, err error) {
	for _, x := range ext {
		m, err := ReadManifest(dir, x)
		if err != nil {
			return nil, false, err
		}
		if m == nil {
			continue
		}
		found = true
		for _, name := range m.names() {
			path := filepath.Join(dir, name)
			_, err := statPart(path)
			if errors.Is(err, fs.ErrNotExist) {
				if now, nowErr := ReadManifest(dir, x); nowErr == nil && (now == nil || now.ID != m.ID) {
					return nil, false, errReplaced
				}
				return nil, false, &fault.Error{Kind: fault.ErrCorrupt, Path: path, Partition: -1,
					Reason: "missing, but listed in the manifest of its folder; write the result again, or remove " +
						ManifestPath(dir, x) + " to read the existing files"}
			}
			if err != nil {
				return nil, false, fmt.Errorf("frame: %w", err)
			}
			names = append(names, name)
		}
	}
	return names, found, nil
}
