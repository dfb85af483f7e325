package linuxpkg

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// part reads one compressed part of an apk, and returns its compressed and its plain bytes.
func part(t *testing.T, r *bytes.Reader) (packed, plain []byte) {
	t.Helper()
	var read bytes.Buffer
	// The reader of gzip takes single bytes from a ByteReader, so that read has this part only.
	z, err := gzip.NewReader(byteTee{r, &read})
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	if plain, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return read.Bytes(), plain
}

// byteTee copies what is read.
type byteTee struct {
	*bytes.Reader
	to *bytes.Buffer
}

func (b byteTee) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.to.Write(p[:n])
	return n, err
}

func (b byteTee) ReadByte() (byte, error) {
	c, err := b.Reader.ReadByte()
	if err == nil {
		b.to.WriteByte(c)
	}
	return c, err
}

func TestAPK(t *testing.T) {
	p := sample()
	data, err := p.APK()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.APKName(), "mill-0.2.0_rc1-r0.x86_64.apk"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r := bytes.NewReader(data)
	_, control := part(t, r)
	packed, plain := part(t, r)
	if r.Len() != 0 {
		t.Errorf("%d bytes after the second part", r.Len())
	}
	if len(control)%512 != 0 || bytes.HasSuffix(control, make([]byte, 1024)) {
		t.Errorf("the first part, of %d bytes, has the end of an archive; apk would read no files", len(control))
	}
	// One archive: apk reads both parts as one stream.
	found := map[string]string{}
	archive := tar.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(control), bytes.NewReader(plain))))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = string(text)
		sum := sha1.Sum(text)
		if got := h.PAXRecords["APK-TOOLS.checksum.SHA1"]; h.Typeflag == tar.TypeReg && h.Name != ".PKGINFO" &&
			got != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: got checksum %q, want %x", h.Name, got, sum)
		}
	}
	if found["usr/bin/mill"] != "#!/bin/sh\n" || len(found) < 1+3+6 {
		t.Errorf("got files %q", found)
	}
	for _, want := range []string{"pkgname = mill\n", "pkgver = 0.2.0_rc1-r0\n", "arch = x86_64\n", "size = 19\n",
		"license = Apache-2.0\n", fmt.Sprintf("datahash = %x\n", sha256.Sum256(packed))} {
		if !strings.Contains(found[".PKGINFO"], want) {
			t.Errorf(".PKGINFO without %q:\n%s", want, found[".PKGINFO"])
		}
	}
	again, err := sample().APK()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("a second package differs: %d and %d bytes, %v", len(data), len(again), err)
	}
	p.Arch = "riscv64"
	if _, err := p.APK(); err == nil {
		t.Error("no error for an architecture without a name")
	}
}
