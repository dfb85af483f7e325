package linuxpkg

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
)

func sample() *Package {
	return &Package{Name: "mill", Version: "0.2.0-rc.1", Arch: "amd64", Summary: "a mill",
		Description: "Grinds.\n\nAnd grinds.", Maintainer: "The authors <authors@example.org>", License: "Apache-2.0",
		Homepage: "https://example.org", Recommends: []string{"libucx0"}, Time: time.Unix(1_800_000_000, 0),
		Files: []archive.File{
			{Name: "usr/bin/mill", Mode: 0o755, Data: []byte("#!/bin/sh\n")},
			{Name: "etc/default/mill", Mode: 0o644, Data: []byte("ARGS=\n")},
			{Name: "usr/share/doc/mill/LICENSE", Mode: 0o644, Data: []byte("odd")},
		}, Config: []string{"etc/default/mill"}, AfterInstall: "echo installed\n", AfterRemove: "echo removed\n"}
}

// members returns the entries of an ar archive.
func members(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	data, ok := bytes.CutPrefix(data, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("not an ar archive")
	}
	found := map[string][]byte{}
	for len(data) >= 60 {
		size, err := strconv.Atoi(strings.TrimSpace(string(data[48:58])))
		if err != nil || string(data[58:60]) != "`\n" || len(data) < 60+size {
			t.Fatalf("header %q: %v", data[:60], err)
		}
		found[strings.TrimSpace(string(data[:16]))] = data[60 : 60+size]
		data = data[60+size+size%2:]
	}
	if len(data) > 0 {
		t.Errorf("%d bytes after the last entry", len(data))
	}
	return found
}

func TestDeb(t *testing.T) {
	p := sample()
	data, err := p.Deb()
	if err != nil {
		t.Fatal(err)
	}
	found := members(t, data)
	if string(found["debian-binary"]) != "2.0\n" || len(found["control.tar.gz"]) == 0 ||
		len(found["data.tar.gz"]) == 0 {
		t.Errorf("got entries %d", len(found))
	}
	if got, want := p.DebName(), "mill_0.2.0~rc.1_amd64.deb"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	control := string(p.control())
	for _, want := range []string{"Package: mill\n", "Version: 0.2.0~rc.1\n", "Installed-Size: 1\n",
		"Recommends: libucx0\n", "Description: a mill\n Grinds.\n .\n And grinds.\n"} {
		if !strings.Contains(control, want) {
			t.Errorf("control without %q:\n%s", want, control)
		}
	}
	again, err := sample().Deb()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("a second package differs: %d and %d bytes, %v", len(data), len(again), err)
	}
}

// TestDpkg reads the package with the program of Debian, where it is installed.
func TestDpkg(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("dpkg-deb is not installed; TestDeb reads the archive itself")
		return
	}
	data, err := sample().Deb()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "mill.deb")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := exec.Command("dpkg-deb", "-f", file, "Version").CombinedOutput(); string(got) != "0.2.0~rc.1\n" {
		t.Errorf("version: got %q, %v", got, err)
	}
	if out, err := exec.Command("dpkg-deb", "-R", file, filepath.Join(dir, "root")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{"usr/bin/mill": "#!/bin/sh\n", "DEBIAN/conffiles": "/etc/default/mill\n",
		"DEBIAN/postinst": "#!/bin/sh\nset -e\necho installed\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, "root", name)); string(got) != want {
			t.Errorf("%s: got %q, want %q, %v", name, got, want, err)
		}
	}
}

// readHeader returns the values of an rpm header by tag, and the bytes after it.
func readHeader(t *testing.T, data []byte) (map[int32][]byte, []byte) {
	t.Helper()
	if !bytes.HasPrefix(data, []byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0}) {
		t.Fatalf("no header at %x", data[:8])
	}
	n, size := int(binary.BigEndian.Uint32(data[8:])), int(binary.BigEndian.Uint32(data[12:]))
	index, store := data[16:16+16*n], data[16+16*n:16+16*n+size]
	values := map[int32][]byte{}
	var tags []int32
	for i := range n {
		e := index[16*i:]
		tag, offset := int32(binary.BigEndian.Uint32(e)), int(binary.BigEndian.Uint32(e[8:]))
		if tags = append(tags, tag); i > 0 && tag <= tags[i-1] {
			t.Errorf("tag %d after %d", tag, tags[i-1])
		}
		values[tag] = store[offset:]
	}
	return values, data[16+16*n+size:]
}

func text(b []byte) string { return string(b[:max(bytes.IndexByte(b, 0), 0)]) }

func TestRPM(t *testing.T) {
	p := sample()
	data, err := p.RPM()
	if err != nil {
		t.Fatal(err)
	}
	sig, rest := readHeader(t, data[96:])
	rest = rest[-(len(data)-len(rest))&7:]
	head, payload := readHeader(t, rest)
	if got, want := int(binary.BigEndian.Uint32(sig[tagSigSize])), len(rest); got != want {
		t.Errorf("size of header and payload: got %d, want %d", got, want)
	}
	for tag, want := range map[int32]string{tagName: "mill", tagVersion: "0.2.0~rc.1", tagArch: "x86_64",
		tagPostIn: "echo installed\n", tagDirNames: "/etc/default/"} {
		if got := text(head[tag]); got != want {
			t.Errorf("tag %d: got %q, want %q", tag, got, want)
		}
	}
	if !bytes.HasPrefix(payload, []byte{0x1f, 0x8b}) {
		t.Errorf("payload begins with %x", payload[:2])
	}
	if got, want := p.RPMName(), "mill-0.2.0~rc.1-1.x86_64.rpm"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	again, err := sample().RPM()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("a second package differs: %d and %d bytes, %v", len(data), len(again), err)
	}
}

// TestRPMProgram reads the package with rpm, where it is installed.
func TestRPMProgram(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Log("rpm is not installed; TestRPM reads the package itself")
		return
	}
	data, err := sample().RPM()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "mill.rpm")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	rpm := func(args ...string) string {
		args = append([]string{"--dbpath", filepath.Join(dir, "db")}, args...)
		out, err := exec.Command("rpm", args...).CombinedOutput()
		if err != nil {
			t.Errorf("rpm %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	if got := rpm("-K", "--nosignature", file); !strings.Contains(got, "digests OK") {
		t.Errorf("digests: %s", got)
	}
	files := strings.Fields(rpm("-qp", "--nosignature", "--list", file))
	want := []string{"/etc/default/mill", "/usr/bin/mill", "/usr/share/doc/mill", "/usr/share/doc/mill/LICENSE"}
	if !slices.Equal(files, want) {
		t.Errorf("got %q, want %q", files, want)
	}
	if got := strings.TrimSpace(rpm("-qp", "--nosignature", "--configfiles", file)); got != "/etc/default/mill" {
		t.Errorf("configuration files: got %q", got)
	}
}

func TestInvalid(t *testing.T) {
	for name, change := range map[string]func(*Package){
		"architecture":  func(p *Package) { p.Arch = "s390x" },
		"summary":       func(p *Package) { p.Summary = "two\nlines" },
		"license":       func(p *Package) { p.License = "" },
		"configuration": func(p *Package) { p.Config = []string{"etc/other"} },
		"file name":     func(p *Package) { p.Files[0].Name = "/usr/bin/mill" },
	} {
		p := sample()
		change(p)
		if _, err := p.Deb(); err == nil {
			t.Errorf("deb with an invalid %s: no error", name)
		}
		if _, err := p.RPM(); err == nil {
			t.Errorf("rpm with an invalid %s: no error", name)
		}
	}
}
