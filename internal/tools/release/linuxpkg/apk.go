package linuxpkg

import (
	"bytes"
	"crypto/sha1" // the format of checksums in an apk
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.millstream.dev/internal/tools/release/archive"
)

// APKName returns the file name of the Alpine package.
func (p *Package) APKName() string {
	return fmt.Sprintf("%s-%s.%s.apk", p.Name, p.apkVersion(), arches[p.Arch].rpm)
}

// apkVersion returns the version in the form of Alpine, in which 0.2.0_rc1 is older than 0.2.0.
func (p *Package) apkVersion() string {
	number, pre, _ := strings.Cut(p.Version, "-")
	if pre != "" {
		number += "_" + strings.ReplaceAll(pre, ".", "")
	}
	return number + "-r0"
}

// APK returns the Alpine package: two tar archives, each compressed, of which the first has no end. It has no
// signature, so apk installs it with --allow-untrusted only. Scripts and Config are not part of it: Alpine keeps
// changed files below /etc of every package.
func (p *Package) APK() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	files := slices.Clone(p.Files)
	for i, f := range files {
		sum := sha1.Sum(f.Data)
		files[i].Records = map[string]string{"APK-TOOLS.checksum.SHA1": hex.EncodeToString(sum[:])}
	}
	data, err := archive.TarGz("", files, p.Time)
	if err != nil {
		return nil, err
	}
	info := []archive.File{{Name: ".PKGINFO", Mode: 0o644, Data: p.pkginfo(sha256.Sum256(data))}}
	control, err := archive.Gzip(func(w io.Writer) error { return archive.TarPart(w, "", info, p.Time) })
	if err != nil {
		return nil, err
	}
	return append(control, data...), nil
}

// pkginfo returns the description of the package, with the checksum of the compressed files.
func (p *Package) pkginfo(data [sha256.Size]byte) []byte {
	var b bytes.Buffer
	for _, field := range [][2]string{{"pkgname", p.Name}, {"pkgver", p.apkVersion()}, {"pkgdesc", p.Summary},
		{"url", p.Homepage}, {"builddate", fmt.Sprint(p.Time.Unix())}, {"packager", p.Maintainer},
		{"size", fmt.Sprint(p.size())}, {"arch", arches[p.Arch].rpm}, {"origin", p.Name}, {"license", p.License},
		{"datahash", hex.EncodeToString(data[:])}} {
		if field[1] != "" {
			fmt.Fprintf(&b, "%s = %s\n", field[0], field[1])
		}
	}
	return b.Bytes()
}
