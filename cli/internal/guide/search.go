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
	fewHits     = 3   // fewer than these leave the reader without a choice
	maxPageHits = 3   // sections of one page
	maxQuery    = 200 // bytes
	excerptSize = 90  // bytes on each side of the match
)

// common are words that say nothing about the subject of a question.
var common = map[string]bool{"a": true, "an": true, "and": true, "are": true, "can": true, "do": true, "does": true,
	"for": true, "from": true, "how": true, "i": true, "in": true, "is": true, "it": true, "my": true, "of": true,
	"on": true, "or": true, "the": true, "to": true, "what": true, "where": true, "why": true, "with": true}

// fold returns text in the form that is compared: lower case, and "-" for "_", so that a flag, a key and a Python
// argument of one name are the same.
func fold(text string) string { return strings.ReplaceAll(strings.ToLower(text), "_", "-") }

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// words splits a query into folded words, without quotes, brackets and the like and without common words, unless there
// are no others.
func words(query string) []string {
	if len(query) > maxQuery {
		query = query[:maxQuery]
	}
	var all, telling []string
	for _, w := range strings.FieldsFunc(fold(query), func(r rune) bool {
		return r == utf8.RuneError || !inWord(r) && !strings.ContainsRune("-./:+", r)
	}) {
		if w = strings.Trim(w, "-./:"); w == "" || slices.Contains(all, w) {
			continue
		}
		all = append(all, w)
		if !common[w] {
			telling = append(telling, w)
		}
	}
	if len(telling) == 0 {
		return all
	}
	return telling
}

// find returns the position of a word in a folded text, -1 if there is none. With start, the word must begin a word of
// the text.
func find(text, word string, start bool) int {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		if before, _ := utf8.DecodeLastRuneInString(text[:i]); !start || i == 0 || !inWord(before) {
			return i
		}
		from = i + len(word)
	}
}

// count returns how often a word is in a text, at most limit.
func count(text, word string, start bool, limit int) int {
	n := 0
	for ; n < limit; n++ {
		i := find(text, word, start)
		if i < 0 {
			break
		}
		text = text[i+len(word):]
	}
	return n
}

// search returns the sections that match a query, best first. They contain all its words, at the beginning of words or
// else anywhere. If no section does, search returns the sections that contain the most of them, and partial is true.
// Such sections also follow the only one or two that contain all of three or more words.
func (s *site) search(query string) (hits []hit, partial bool) {
	list := words(query)
	for _, start := range []bool{true, false} {
		if hits = s.match(list, start, len(list)); len(hits) > 0 {
			break
		}
	}
	if len(hits) >= fewHits || len(hits) > 0 && len(list) < 3 {
		return hits, false
	}
	partial = len(hits) == 0
	for n := len(list) - 1; n > 0 && len(hits) < fewHits; n-- {
		for _, h := range s.match(list, true, n) {
			if !slices.ContainsFunc(hits, func(x hit) bool { return x.Path == h.Path && x.Anchor == h.Anchor }) {
				hits = append(hits, h)
			}
		}
	}
	return hits[:min(len(hits), maxHits)], partial && len(hits) > 0
}

// match returns the sections that contain at least n words of a list, best first: a word in the title of a page counts
// more than one in a heading, and that more than one in the text; a page of the guide counts more than others.
func (s *site) match(list []string, start bool, n int) []hit {
	var hits []hit
	for _, p := range s.order {
		title := fold(p.title)
		for _, sec := range p.sections {
			heading, text := fold(sec.Heading), fold(sec.text)
			score, found := 0, 0
			for _, w := range list {
				here := 10*count(heading, w, start, 2) + count(text, w, start, 5)
				if here == 0 {
					continue
				}
				found++
				score += here + 20*count(title, w, start, 1)
			}
			if found == 0 || found < n {
				continue
			}
			h := hit{Page: p.title, Path: p.path, Heading: sec.Heading, Anchor: sec.Anchor,
				score: score * weight(p.path)}
			h.Before, h.Match, h.After = excerpt(sec.text, list, start)
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	pages := map[string]int{}
	hits = slices.DeleteFunc(hits, func(h hit) bool {
		pages[h.Path]++
		return pages[h.Path] > maxPageHits
	})
	return hits[:min(len(hits), maxHits)]
}

// weight returns how much the hits of a page count. Readers look for how to do something before why it is so.
func weight(path string) int {
	switch {
	case strings.HasPrefix(path, prefix+"guide/"):
		return 3
	case strings.HasPrefix(path, prefix+"adr/"), strings.HasPrefix(path, prefix+"protocol/"):
		return 1
	}
	return 2
}

// excerpt returns a part of a text around the first of words that occurs in it.
func excerpt(text string, list []string, start bool) (before, match, after string) {
	folded := fold(text)
	if len(folded) != len(text) { // letters whose lower case has another length
		text = folded
	}
	at, n := 0, 0
	for _, w := range list {
		if i := find(folded, w, start); i >= 0 {
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
