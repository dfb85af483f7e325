// Package docfiles holds the documents that a binary contains.
package docfiles

import "io/fs"

// Files is the docs folder of the repository. It is nil in a program that does not import package docs, which sets it
// in an init function.
var Files fs.FS
