package taskid

import "strings"

// SplitHash returns the two parts of a task.Hash: the hash of the names and signatures of the functions, and the build
// ID. build is empty in a hash for the functions of any build.
func SplitHash(hash string) (functions, build string) {
	functions, build, _ = strings.Cut(hash, "-")
	return functions, build
}
