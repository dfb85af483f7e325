package daskver

import (
	"fmt"
	"strconv"
	"strings"
)

// Role is what Millstream is to the peer whose release is looked at.
type Role uint8

// The roles.
const (
	// Client of a scheduler of Dask's.
	Client Role = iota
	// Worker of a scheduler of Dask's.
	Worker
	// Scheduler of clients and workers of Dask's.
	Scheduler
)

// Newest is the newest release that was tested, in all roles.
const Newest = "2026.8.0"

// Oldest is the oldest release that was tested with a role.
func (r Role) Oldest() string {
	if r == Scheduler {
		return "2025.7.0"
	}
	return "2025.4.1"
}

// Tested is the range of tested releases, for messages.
func (r Role) Tested() string { return r.Oldest() + " to " + Newest }

// Verdict is what to do about a peer.
type Verdict uint8

// The verdicts.
const (
	// Good: the release was tested, or lies between two that were.
	Good Verdict = iota
	// Newer than all that were tested: warn loudly.
	Newer
	// Older than all that were tested: refuse.
	Older
	// Unknown: the peer does not tell, or tells something that is no release.
	Unknown
)

// Check judges a peer's release of distributed.
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

// Message says what is wrong with a peer, and what helps; "" if nothing is. peer is who it
// is: "the scheduler", "client X".
func (r Role) Message(peer, release string) string {
	switch r.Check(release) {
	case Older:
		return fmt.Sprintf("%s has Dask %.40s, and Millstream works with %s: messages and graphs of older releases "+
			"have another form. Install a newer dask and distributed there", peer, release, r.Tested())
	case Newer:
		return fmt.Sprintf("%s has Dask %.40s, which is newer than all that Millstream was tested with (%s): results "+
			"may be wrong. Install a tested release, or look for a newer Millstream", peer, release, r.Tested())
	case Unknown:
		if release == "" {
			return fmt.Sprintf("%s does not tell its release of Dask: Millstream was tested with %s", peer, r.Tested())
		}
		return fmt.Sprintf("%s has Dask %.40q, which is no release: Millstream was tested with %s", peer, release,
			r.Tested())
	}
	return ""
}

// Compare compares releases by their numbers; what follows them ("rc1", "+12.g0a") does not
// count.
func Compare(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if d := leading(x) - leading(y); d != 0 {
			return d
		}
	}
	return 0
}

// isRelease wants a year and a month, in that order.
func isRelease(s string) bool {
	year, rest, ok := strings.Cut(s, ".")
	return ok && leading(year) >= 2015 && leading(year) < 10000 && len(year) == 4 && rest != "" && rest[0] >= '0' &&
		rest[0] <= '9'
}

// leading is the number that a text begins with; 0 if it does not.
func leading(s string) int {
	if end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		s = s[:end]
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > 1<<30 {
		return 0
	}
	return n
}
