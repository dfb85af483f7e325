// Package revision reads which commit a program was built from.
package revision

import "runtime/debug"

const digits = 12 // of a commit, enough to be unique

// Of returns the commit of the main module that the go command recorded, shortened to twelve digits, and whether the
// working tree had changes. The commit is "" if none was recorded.
func Of(info *debug.BuildInfo) (commit string, changed bool) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(len(s.Value), digits)]
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	return commit, changed
}
