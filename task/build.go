package task

import (
	"strings"

	"go.millstream.dev/internal/buildid"
)

// build replaces the build ID of the executable when it is not empty: a linker flag sets it, such as
// -ldflags "-X go.millstream.dev/task.build=v1.4". Programs that are one version and several files, such as one for each
// architecture, need it.
var build string

// maxBuild bounds build, which is a part of Hash.
const maxBuild = 64

// BuildID returns what identifies the program of this process: equal in processes of one executable file, and other
// after any change of its code. It is the content part of the go command's build ID, or a hash of the whole file
// where that has none, or what -ldflags "-X go.millstream.dev/task.build=TEXT" says.
func BuildID() string {
	if build != "" {
		return strings.ReplaceAll(build[:min(len(build), maxBuild)], "\n", " ")
	}
	return buildid.Current().ID
}

// BuildText describes the program of this process for messages: its name, build ID, and revision where known.
func BuildText() string {
	b := buildid.Current()
	b.ID = BuildID()
	return b.String()
}

// SplitHash returns the two parts of a Hash: that of the functions' names and signatures, and the build ID. build is
// empty in a hash that stands for the functions of any build.
func SplitHash(hash string) (functions, build string) {
	functions, build, _ = strings.Cut(hash, "-")
	return functions, build
}

// Signatures returns a short hash of each function's signature, in the order of Names. Together they name the functions
// that two programs do not share.
func Signatures() []string {
	names := Names()
	out := make([]string, len(names))
	for i, name := range names {
		if f, ok := Lookup(name); ok {
			out[i] = shortHash(f.signature)
		}
	}
	return out
}
