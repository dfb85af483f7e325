package docfiles

import (
	"regexp"
	"strconv"
	"strings"
)

var notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)

// Slugs forms the fragments of the headings of one document, in their order, as GitHub does. The key is a fragment, the
// value how often it occurred.
type Slugs map[string]int

// Next returns the fragment of the next heading.
func (s Slugs) Next(heading string) string {
	slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
	n := s[slug]
	s[slug]++
	if n > 0 {
		slug += "-" + strconv.Itoa(n)
	}
	return slug
}
