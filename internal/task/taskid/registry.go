package taskid

import "strings"

// SplitHash returns the two parts of a task.Hash: that of the functions' names and signatures, and the build ID. build
// is empty in a hash that stands for the functions of any build.
func SplitHash(hash string) (functions, build string) {
	functions, build, _ = strings.Cut(hash, "-")
	return functions, build
}
