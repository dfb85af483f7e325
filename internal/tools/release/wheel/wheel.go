// Package wheel writes Python wheels (PEP 427) that contain executables. Their bytes depend on their contents alone.
package wheel

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
)

// Wheel describes a wheel.
type Wheel struct {
	Name     string // of the distribution, such as millstream-dask-names
	Version  string
	Tag      string // such as py3-none-any
	Metadata []string
	Readme   string // in Markdown
	Time     time.Time
	Files    []archive.File // relative to site-packages
	Scripts  []archive.File // executables for the folder of programs
	Commands map[string]string
}

// base returns the name and version in names of files, where a hyphen separates the parts.
func (w *Wheel) base() string { return strings.ReplaceAll(w.Name, "-", "_") + "-" + w.Version }

// FileName returns the name of the wheel.
func (w *Wheel) FileName() string { return w.base() + "-" + w.Tag + ".whl" }

// Build returns the wheel.
func (w *Wheel) Build() ([]byte, error) {
	info := w.base() + ".dist-info"
	files := append(slices.Clone(w.Files), archive.Under(w.base()+".data/scripts", w.Scripts)...)
	add := func(name string, text string) {
		files = append(files, archive.File{Name: path.Join(info, name), Mode: 0o644, Data: []byte(text)})
	}
	add("METADATA", w.metadata())
	add("WHEEL", w.description())
	if len(w.Commands) > 0 {
		add("entry_points.txt", w.entryPoints())
	}
	files, err := archive.Sorted(files)
	if err != nil {
		return nil, err
	}
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.Data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.Data))
	}
	fmt.Fprintf(&record, "%s/RECORD,,\n", info)
	add("RECORD", record.String())
	return archive.Zip(files, w.Time)
}

func (w *Wheel) metadata() string {
	lines := append([]string{"Metadata-Version: 2.1", "Name: " + w.Name, "Version: " + w.Version}, w.Metadata...)
	if w.Readme != "" {
		lines = append(lines, "Description-Content-Type: text/markdown", "", w.Readme)
	}
	return strings.Join(lines, "\n") + "\n"
}

func (w *Wheel) description() string {
	pure := strings.HasSuffix(w.Tag, "-any")
	text := fmt.Sprintf("Wheel-Version: 1.0\nGenerator: millstream-release\nRoot-Is-Purelib: %s\n",
		map[bool]string{true: "true", false: "false"}[pure])
	parts := strings.SplitN(w.Tag, "-", 3)
	for platform := range strings.SplitSeq(parts[len(parts)-1], ".") {
		text += "Tag: " + strings.Join(append(slices.Clone(parts[:len(parts)-1]), platform), "-") + "\n"
	}
	return text
}

func (w *Wheel) entryPoints() string {
	var lines []string
	for name, function := range w.Commands {
		lines = append(lines, name+" = "+function)
	}
	slices.Sort(lines)
	return "[console_scripts]\n" + strings.Join(lines, "\n") + "\n"
}

// machines are the names of architectures in tags.
var machines = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// Platform returns the tag of the platforms that an executable runs on: a manylinux with the version of glibc that it
// needs, or, for a static one, every Linux.
func Platform(executable []byte) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(executable))
	if err != nil {
		return "", fmt.Errorf("wheel: %w; use an executable of Linux", err)
	}
	defer f.Close()
	machine, ok := machines[f.Machine]
	if !ok {
		return "", fmt.Errorf("wheel: architecture %v has no name in tags; add it to machines", f.Machine)
	}
	symbols, err := f.ImportedSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return "", fmt.Errorf("wheel: %w", err)
	}
	newest := 0
	for _, s := range symbols {
		minor, ok := strings.CutPrefix(s.Version, "GLIBC_2.")
		if !ok {
			continue
		}
		minor, _, _ = strings.Cut(minor, ".")
		n, err := strconv.Atoi(minor)
		if err != nil {
			return "", fmt.Errorf("wheel: symbol %s of version %q: %w", s.Name, s.Version, err)
		}
		newest = max(newest, n)
	}
	if newest == 0 {
		return fmt.Sprintf("manylinux_2_17_%s.musllinux_1_1_%[1]s", machine), nil
	}
	return fmt.Sprintf("manylinux_2_%d_%s", max(newest, 17), machine), nil
}
