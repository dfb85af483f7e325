// Package buildid identifies the program of the process.
package buildid

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"go.millstream.dev/internal/proc/revision"
)

// Build describes the program of a process.
type Build struct {
	// ID is equal for processes of the same executable file, and differs if the code differs. It has 16 hex digits.
	ID string
	// Program is the base name of the executable.
	Program string
	// Revision is the commit of the main module as the go command recorded it, with "+changes" if the working tree was
	// modified; otherwise the version of the main module; "" if neither is known.
	Revision string
}

// String returns the name of the program with build and revision, such as "app (build 0a1b2c3d4e5f6071, revision
// 1234567)".
func (b Build) String() string {
	s := b.Program + " (build " + b.ID
	if b.Revision != "" {
		s += ", revision " + b.Revision
	}
	return s + ")"
}

// Current returns the build of this process.
var Current = sync.OnceValue(func() Build {
	b := Build{ID: shorten(readID())}
	if path, err := os.Executable(); err == nil {
		b.Program = filepath.Base(strings.TrimSuffix(path, " (deleted)"))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Revision = revisionOf(info)
	}
	return b
})

func shorten(id []byte) string {
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:8])
}

// revisionOf returns the text for Build.Revision.
func revisionOf(info *debug.BuildInfo) string {
	commit, changed := revision.Of(info)
	switch {
	case commit != "" && changed:
		return commit + "+changes"
	case commit == "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return commit
}

// readID returns bytes that identify the executable: the build ID of the go command, otherwise the whole file,
// otherwise the versions of its modules.
func readID() []byte {
	f, err := open()
	if err == nil {
		defer f.Close()
		if id, ok := FromFile(f); ok {
			return id
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return []byte(info.String())
	}
	return nil
}

// open opens the running executable, even if its file has been replaced.
func open() (*os.File, error) {
	if f, err := os.Open("/proc/self/exe"); err == nil {
		return f, nil
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// FromFile returns bytes that identify an executable.
func FromFile(f io.ReadSeeker) ([]byte, bool) {
	if id := goBuildID(f); id != "" {
		return []byte(id), true
	}
	// Without an ID of the go command (-ldflags=-buildid=…, other build tools) the content identifies the file.
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, false
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, false
	}
	return h.Sum(nil), true
}

// goBuildID returns the part of the go command's build ID for the content: the last of those between the slashes. An ID
// without slashes was set by a user or a build tool, such as "redacted", and many programs may have it.
func goBuildID(f io.ReadSeeker) string {
	id := elfBuildID(f)
	if id == "" {
		id = markedBuildID(f)
	}
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		return id[i+1:]
	}
	return ""
}

const maxNotes = 1 << 20

// elfBuildID reads the note of an ELF file.
func elfBuildID(f io.ReadSeeker) string {
	at, ok := f.(io.ReaderAt)
	if !ok {
		return ""
	}
	e, err := elf.NewFile(at)
	if err != nil {
		return ""
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			continue
		}
		if id := noteBuildID(b, e.ByteOrder); id != "" {
			return id
		}
	}
	return ""
}

// noteBuildID returns the content of the Go note: name "Go", type 4.
func noteBuildID(b []byte, order binary.ByteOrder) string {
	pad := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(b) >= 12 {
		name, desc, kind := order.Uint32(b), order.Uint32(b[4:]), order.Uint32(b[8:])
		b = b[12:]
		n := pad(name) + pad(desc)
		if n > uint64(len(b)) {
			return ""
		}
		if kind == 4 && name == 4 && string(b[:4]) == "Go\x00\x00" {
			return string(b[pad(name) : pad(name)+uint64(desc)])
		}
		b = b[n:]
	}
	return ""
}

// markedBuildID returns the ID in files that are not ELF, where it is in the first bytes of the code.
func markedBuildID(f io.ReadSeeker) string {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ""
	}
	head, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return ""
	}
	_, rest, ok := bytes.Cut(head, []byte("\xff Go build ID: \""))
	if !ok {
		return ""
	}
	id, _, ok := bytes.Cut(rest, []byte("\"\n \xff"))
	if !ok {
		return ""
	}
	return string(id)
}
