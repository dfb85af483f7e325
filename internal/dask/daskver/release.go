package daskver

import (
	"fmt"
	"strconv"
	"strings"
)

// Role is the role of Millstream towards a peer whose release is checked.
type Role uint8

// The roles.
const (
	// Client is a client of a Dask scheduler.
	Client Role = iota
	// Worker is a worker of a Dask scheduler.
	Worker
	// Scheduler is a scheduler of Dask clients and workers.
	Scheduler
)

// Newest is the newest tested release, for all roles.
const Newest = "2026.8.0"

// Oldest returns the oldest tested release for a role.
func (r Role) Oldest() string {
	if r == Scheduler {
		return "2025.7.0"
	}
	return "2025.4.1"
}

// Tested returns the range of tested releases, for messages.
func (r Role) Tested() string { return r.Oldest() + " to " + Newest }

// Untested is the log message about a release that is Newer or Unknown; its attribute "detail" is the Message.
const Untested = "untested release of Dask"

// Verdict is the result of the check of a release.
type Verdict uint8

// The verdicts.
const (
	// Good means that the release was tested, or is between two tested ones.
	Good Verdict = iota
	// Newer means that the release is newer than all tested ones: log a warning.
	Newer
	// Older means that the release is older than all tested ones: reject the peer.
	Older
	// Unknown means that the peer reports no release, or a malformed one.
	Unknown
)

// Check checks the release of distributed of a peer.
func (r Role) Check(release string) Verdict {
	switch {
	case !isRelease(release):
		return Unknown
	case Compare(release, r.Oldest()) < 0:
		return Older
	case Compare(release, Newest) > 0:
		return Newer
	}
	return Good
}

// Message returns what is wrong with the release of a peer, with a remedy; "" if nothing is. peer identifies it: "the
// scheduler", "client X".
func (r Role) Message(peer, release string) string {
	switch r.Check(release) {
	case Older:
		return fmt.Sprintf("%s has Dask %.40s, and Millstream works with %s: messages and graphs of older releases "+
			"have another form. Install a newer dask and distributed there", peer, release, r.Tested())
	case Newer:
		return fmt.Sprintf("%s has Dask %.40s, which is newer than all that Millstream was tested with (%s): results "+
			"may be wrong. Install a tested release, or a newer Millstream", peer, release, r.Tested())
	case Unknown:
		if release == "" {
			return fmt.Sprintf("%s reports no release of Dask; Millstream was tested with %s", peer, r.Tested())
		}
		return fmt.Sprintf("%s has Dask %.40q, which is not a release; Millstream was tested with %s", peer, release,
			r.Tested())
	}
	return ""
}

// Compare compares releases by their numbers and ignores suffixes ("rc1", "+12.g0a").
func Compare(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if d := leadingNumber(x) - leadingNumber(y); d != 0 {
			return d
		}
	}
	return 0
}

// isRelease reports whether s begins with a year and a month.
func isRelease(s string) bool {
	year, rest, ok := strings.Cut(s, ".")
	return ok && len(year) == 4 && leadingNumber(year) >= 2015 && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

// leadingNumber returns the number with which a text begins, or 0.
func leadingNumber(s string) int {
	if end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		s = s[:end]
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > 1<<30 {
		return 0
	}
	return n
}
