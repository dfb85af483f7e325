package linuxpkg

import (
	"bytes"
	"crypto/md5" // the format of md5sums
	"fmt"
	"strings"

	"go.millstream.dev/internal/tools/release/archive"
)

// DebName returns the file name of the Debian package.
func (p *Package) DebName() string {
	return fmt.Sprintf("%s_%s_%s.deb", p.Name, p.debVersion(), arches[p.Arch].deb)
}

// debVersion returns the version in the order of Debian, in which 0.2.0~rc.1 is older than 0.2.0.
func (p *Package) debVersion() string { return strings.Replace(p.Version, "-", "~", 1) }

// Deb returns the Debian package.
func (p *Package) Deb() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	control := []archive.File{
		{Name: "control", Mode: 0o644, Data: p.control()},
		{Name: "md5sums", Mode: 0o644, Data: p.md5sums()},
	}
	if len(p.Config) > 0 {
		list := "/" + strings.Join(p.Config, "\n/") + "\n"
		control = append(control, archive.File{Name: "conffiles", Mode: 0o644, Data: []byte(list)})
	}
	for name, script := range map[string]string{"postinst": p.AfterInstall, "postrm": p.AfterRemove} {
		if script != "" {
			text := []byte("#!/bin/sh\nset -e\n" + script)
			control = append(control, archive.File{Name: name, Mode: 0o755, Data: text})
		}
	}
	meta, err := archive.TarGz("./", control, p.Time)
	if err != nil {
		return nil, err
	}
	data, err := archive.TarGz("./", p.Files, p.Time)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	p.member(&b, "debian-binary", []byte("2.0\n"))
	p.member(&b, "control.tar.gz", meta)
	p.member(&b, "data.tar.gz", data)
	return b.Bytes(), nil
}

// member writes an entry of an ar archive.
func (p *Package) member(b *bytes.Buffer, name string, data []byte) {
	fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, p.Time.Unix(), 0, 0, 0o100644, len(data))
	b.Write(data)
	if len(data)%2 == 1 {
		b.WriteByte('\n')
	}
}

func (p *Package) control() []byte {
	var b bytes.Buffer
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	field("Package", p.Name)
	field("Version", p.debVersion())
	field("Architecture", arches[p.Arch].deb)
	field("Maintainer", p.Maintainer)
	field("Installed-Size", fmt.Sprint((p.size()+1023)/1024))
	field("Recommends", strings.Join(p.Recommends, ", "))
	field("Section", "net")
	field("Priority", "optional")
	field("Homepage", p.Homepage)
	field("Description", p.Summary)
	for line := range strings.Lines(strings.TrimSpace(p.Description)) {
		line = strings.TrimSpace(line)
		if line == "" {
			line = "."
		}
		fmt.Fprintf(&b, " %s\n", line)
	}
	return b.Bytes()
}

func (p *Package) md5sums() []byte {
	files, err := archive.Sorted(p.Files)
	if err != nil {
		return nil // reported by the archive of the files
	}
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "%x  %s\n", md5.Sum(f.Data), f.Name)
	}
	return b.Bytes()
}
