package linuxpkg

import (
	"bytes"
	"cmp"
	"crypto/md5" // a tag that rpm before 4.14 needs
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.millstream.dev/internal/tools/release/archive"
)

// Tags of rpm headers.
const (
	tagSignatures, tagImmutable                                             = 62, 63
	tagI18N                                                                 = 100
	tagSHA1, tagSHA256, tagSigSize, tagSigMD5, tagSigPayloadSize            = 269, 273, 1000, 1004, 1007
	tagName, tagVersion, tagRelease, tagSummary, tagDescription             = 1000, 1001, 1002, 1004, 1005
	tagBuildTime, tagBuildHost, tagSize, tagLicense, tagPackager, tagGroup  = 1006, 1007, 1009, 1014, 1015, 1016
	tagURL, tagOS, tagArch, tagPostIn, tagPostUn                            = 1020, 1021, 1022, 1024, 1026
	tagFileSizes, tagFileModes, tagFileRdevs, tagFileMtimes, tagFileDigests = 1028, 1030, 1033, 1034, 1035
	tagFileLinks, tagFileFlags, tagFileUsers, tagFileGroups, tagSourceRPM   = 1036, 1037, 1039, 1040, 1044
	tagFileVerify, tagProvide, tagRequireFlags, tagRequire, tagRequireVer   = 1045, 1047, 1048, 1049, 1050
	tagRPMVersion, tagPostInProg, tagPostUnProg, tagFileDevices             = 1064, 1086, 1088, 1095
	tagFileInodes, tagFileLangs, tagProvideFlags, tagProvideVer             = 1096, 1097, 1112, 1113
	tagDirIndexes, tagBaseNames, tagDirNames                                = 1116, 1117, 1118
	tagPayloadFormat, tagPayloadCompressor, tagPayloadFlags                 = 1124, 1125, 1126
	tagFileDigestAlgo                                                       = 5011
	tagPayloadDigest, tagPayloadDigestAlgo                                  = 5092, 5093
)

const (
	senseEqual  = 8
	senseRPMLib = 1<<24 | 8 | 2 // feature of rpm, at least this version
	fileConfig  = 1 | 16        // configuration, kept on upgrade
	algoSHA256  = 8
)

// RPMName returns the file name of the rpm.
func (p *Package) RPMName() string {
	return fmt.Sprintf("%s-%s-1.%s.rpm", p.Name, p.debVersion(), arches[p.Arch].rpm)
}

// RPM returns the package in the format of rpm 4.
func (p *Package) RPM() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	entries, err := p.entries()
	if err != nil {
		return nil, err
	}
	var raw int64
	payload, err := archive.Gzip(func(w io.Writer) error {
		raw, err = cpio(w, entries, p.Time.Unix())
		return err
	})
	if err != nil {
		return nil, err
	}
	h := p.rpmHeader(entries, payload).bytes(tagImmutable)
	sum1, sum256 := sha1.Sum(h), sha256.Sum256(h)
	md := md5.New()
	_, _ = md.Write(h)
	_, _ = md.Write(payload)
	var sig header
	sig.text(tagSHA1, hex.EncodeToString(sum1[:]))
	sig.text(tagSHA256, hex.EncodeToString(sum256[:]))
	sig.int32(tagSigSize, int32(len(h)+len(payload)))
	sig.binary(tagSigMD5, md.Sum(nil))
	sig.int32(tagSigPayloadSize, int32(raw))
	var b bytes.Buffer
	b.Write(p.lead())
	b.Write(sig.bytes(tagSignatures))
	b.Write(make([]byte, -b.Len()&7)) // the header begins at a multiple of eight
	b.Write(h)
	b.Write(payload)
	return b.Bytes(), nil
}

// lead returns the first 96 bytes, which only programs such as file(1) read.
func (p *Package) lead() []byte {
	b := make([]byte, 96)
	copy(b, "\xed\xab\xee\xdb\x03\x00\x00\x00")
	b[9] = byte(arches[p.Arch].number)
	copy(b[10:75], strings.TrimSuffix(p.RPMName(), "."+arches[p.Arch].rpm+".rpm"))
	b[77], b[79] = 1, 5 // Linux, signature in a header
	return b
}

// entry is a file or folder of the payload.
type entry struct {
	archive.File
	folder, config bool
}

func (e entry) mode() uint16 {
	if e.folder {
		return 0o40755
	}
	return 0o100000 | uint16(e.Mode.Perm())
}

// entries returns the files, and the folders that only this package has.
func (p *Package) entries() ([]entry, error) {
	files, err := archive.Sorted(p.Files)
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, dir := range archive.Folders(files) {
		if !p.shared(dir) {
			all = append(all, entry{File: archive.File{Name: dir}, folder: true})
		}
	}
	for _, f := range files {
		all = append(all, entry{File: f, config: slices.Contains(p.Config, f.Name)})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (p *Package) rpmHeader(entries []entry, payload []byte) *header {
	h := &header{}
	h.texts(tagI18N, "C")
	for tag, s := range map[int32]string{tagName: p.Name, tagVersion: p.debVersion(), tagRelease: "1",
		tagBuildHost: "localhost", tagLicense: p.License, tagPackager: p.Maintainer, tagURL: p.Homepage, tagOS: "linux",
		tagArch: arches[p.Arch].rpm, tagSourceRPM: p.Name + "-" + p.debVersion() + "-1.src.rpm",
		tagRPMVersion: "4.18.0", tagPayloadFormat: "cpio", tagPayloadCompressor: "gzip", tagPayloadFlags: "9"} {
		h.text(tag, s)
	}
	h.translated(tagSummary, p.Summary)
	h.translated(tagDescription, strings.TrimSpace(p.Description))
	h.translated(tagGroup, "Unspecified")
	if p.AfterInstall != "" {
		h.text(tagPostIn, p.AfterInstall)
		h.text(tagPostInProg, "/bin/sh")
	}
	if p.AfterRemove != "" {
		h.text(tagPostUn, p.AfterRemove)
		h.text(tagPostUnProg, "/bin/sh")
	}
	h.int32(tagBuildTime, int32(p.Time.Unix()))
	h.int32(tagSize, int32(p.size()))
	h.int32(tagFileDigestAlgo, algoSHA256)
	sum := sha256.Sum256(payload)
	h.texts(tagPayloadDigest, hex.EncodeToString(sum[:]))
	h.int32(tagPayloadDigestAlgo, algoSHA256)
	p.relations(h)
	p.fileTags(h, entries)
	return h
}

// relations adds what the package provides and needs.
func (p *Package) relations(h *header) {
	h.texts(tagProvide, p.Name)
	h.int32(tagProvideFlags, senseEqual)
	h.texts(tagProvideVer, p.debVersion()+"-1")
	h.texts(tagRequire, "/bin/sh", "rpmlib(CompressedFileNames)", "rpmlib(FileDigests)",
		"rpmlib(PayloadFilesHavePrefix)")
	h.int32(tagRequireFlags, 0, senseRPMLib, senseRPMLib, senseRPMLib)
	h.texts(tagRequireVer, "", "3.0.4-1", "4.6.0-1", "4.0-1")
}

// fileTags adds the parallel arrays that describe the files.
func (p *Package) fileTags(h *header, entries []entry) {
	var sizes, mtimes, flags, verify, devices, inodes, dirs []int32
	var modes, rdevs []int16
	var digests, links, owners, langs, bases, folders []string
	for i, e := range entries {
		dir := "/" + path.Dir(e.Name) + "/"
		at := slices.Index(folders, dir)
		if at < 0 {
			at = len(folders)
			folders = append(folders, dir)
		}
		digest, flag := "", int32(0)
		if !e.folder {
			sum := sha256.Sum256(e.Data)
			digest = hex.EncodeToString(sum[:])
		}
		if e.config {
			flag = fileConfig
		}
		sizes, modes, rdevs = append(sizes, int32(len(e.Data))), append(modes, int16(e.mode())), append(rdevs, 0)
		mtimes, digests, links = append(mtimes, int32(p.Time.Unix())), append(digests, digest), append(links, "")
		flags, verify = append(flags, flag), append(verify, -1)
		owners, langs = append(owners, "root"), append(langs, "")
		devices, inodes = append(devices, 1), append(inodes, int32(i+1))
		dirs, bases = append(dirs, int32(at)), append(bases, path.Base(e.Name))
	}
	h.int32(tagFileSizes, sizes...)
	h.int16(tagFileModes, modes...)
	h.int16(tagFileRdevs, rdevs...)
	h.int32(tagFileMtimes, mtimes...)
	h.texts(tagFileDigests, digests...)
	h.texts(tagFileLinks, links...)
	h.int32(tagFileFlags, flags...)
	h.texts(tagFileUsers, owners...)
	h.texts(tagFileGroups, owners...)
	h.int32(tagFileVerify, verify...)
	h.int32(tagFileDevices, devices...)
	h.int32(tagFileInodes, inodes...)
	h.texts(tagFileLangs, langs...)
	h.int32(tagDirIndexes, dirs...)
	h.texts(tagBaseNames, bases...)
	h.texts(tagDirNames, folders...)
}
