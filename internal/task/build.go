package task

import (
	"fmt"
	"strings"

	"go.millstream.dev/internal/task/internal/buildid"
	"go.millstream.dev/internal/task/taskid"
)

// build replaces the build ID of the executable if it is not empty: see DeclareBuild.
var build string

// DeclareBuild replaces the build ID of the executable; "" leaves it unchanged. Package client calls it at
// initialization with the text that a linker flag sets, for programs of one version that consist of several files, such
// as one for each architecture.
func DeclareBuild(text string) { build = text }

// maxBuild bounds the length of build, which is a part of Hash.
const maxBuild = 64

// BuildID returns the build ID of this process: equal in processes of one executable file, and different after any
// change of its code. It is the content part of the go command's build ID, or a hash of the whole file if there is
// none, or the text of DeclareBuild.
func BuildID() string {
	if build != "" {
		return strings.ReplaceAll(build[:min(len(build), maxBuild)], "\n", " ")
	}
	return buildid.Current().ID
}

// BuildText returns a description of the program of this process for messages: its name, build ID, and revision if
// known.
func BuildText() string {
	b := buildid.Current()
	b.ID = BuildID()
	return b.String()
}

// SplitHash returns the two parts of a Hash: the hash of the names and signatures of the functions, and the build ID.
// build is empty in a hash for the functions of any build.
func SplitHash(hash string) (functions, build string) { return taskid.SplitHash(hash) }

// CheckHash returns an error that describes the difference if this process does not have the functions of a hash, in
// the build of the hash. "" matches any functions. A Millstream scheduler has compared the hashes already; Dask's
// scheduler does not.
func CheckHash(hash string) error {
	functions, build := SplitHash(hash)
	mine, _ := SplitHash(Hash())
	switch {
	case hash == "" || hash == Hash() || hash == mine:
		return nil
	case functions != mine:
		return fmt.Errorf("task: functions of the client differ from those of this worker, %s; start workers with the "+
			"program of the client", BuildText())
	}
	return fmt.Errorf("task: build %s of the client differs from this worker, %s; restart the worker with the "+
		"program of the client, "+
		"or allow other builds (millstream.any-build)", build, BuildText())
}

// Signatures returns a short hash of the signature of each function, in the order of Names. They identify the functions
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
