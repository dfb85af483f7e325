package guide

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hit is a section that a search found.
type hit struct {
	Page, Path, Heading, Anchor string
	// Before, Match and After are an excerpt with the first word of the query.
	Before, Match, After string
	score                int
}

const (
	maxHits     = 40
	maxQuery    = 200 // bytes
	excerptSize = 90  // bytes on each side of the match
)

// words splits a query into lower-case words.
func words(query string) []string {
	if len(query) > maxQuery {
		query = query[:maxQuery]
	}
	return strings.FieldsFunc(strings.ToLower(query), func(r rune) bool {
		return unicode.IsSpace(r) || r == '"' || r == ',' || r == utf8.RuneError
	})
}

// search returns the sections that contain all words of a query, best first: a word in the title of a page counts more
// than one in a heading, and that more than one in the text.
func (s *site) search(query string) []hit {
	list := words(query)
	if len(list) == 0 {
		return nil
	}
	var hits []hit
	for _, p := range s.order {
		title := strings.ToLower(p.title)
		for _, sec := range p.sections {
			heading, text := strings.ToLower(sec.Heading), strings.ToLower(sec.text)
			score := 0
			for _, w := range list {
				inHeading, inText := strings.Count(heading, w), strings.Count(text, w)
				if inHeading+inText == 0 {
					score = 0
					break
				}
				score += 20*strings.Count(title, w) + 10*inHeading + min(inText, 5)
			}
			if score == 0 {
				continue
			}
			h := hit{Page: p.title, Path: p.path, Heading: sec.Heading, Anchor: sec.Anchor, score: score}
			h.Before, h.Match, h.After = excerpt(sec.text, list)
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return hits[:min(len(hits), maxHits)]
}

// excerpt returns a part of a text around the first of words that occurs in it.
func excerpt(text string, list []string) (before, match, after string) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // letters whose lower case has another length
		text = lower
	}
	at, n := 0, 0
	for _, w := range list {
		if i := strings.Index(lower, w); i >= 0 {
			at, n = i, len(w)
			break
		}
	}
	from, to := max(0, at-excerptSize), min(len(text), at+n+excerptSize)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	before, match, after = text[from:at], text[at:at+n], text[at+n:to]
	if from > 0 {
		before = "… " + before
	}
	if to < len(text) {
		after += " …"
	}
	return before, match, after
}
