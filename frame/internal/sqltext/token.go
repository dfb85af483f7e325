package sqltext

import "strings"

// kind is the kind of a token.
type kind uint8

const (
	endToken kind = iota
	wordToken
	quotedToken // "name"
	stringToken
	integerToken
	decimalToken // 1.5
	floatToken   // 1e5
	symbolToken
)

// token is a token of the text. The text of a symbol and the lower-case text of a word are in key.
type token struct {
	kind kind
	text string
	key  string
	pos  Pos
}

// describe returns the token for an error.
func (t token) describe() string {
	const most = 40
	text := t.text
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	switch t.kind {
	case endToken:
		return "the end of the text"
	case stringToken:
		return "the string '" + text + "'"
	case quotedToken:
		return "the name \"" + text + "\""
	}
	return "\"" + text + "\""
}

// reserved has the words that are no names unless they are quoted. It is the shortest list with which an optional
// alias is not ambiguous.
var reserved = set("all and any anti as asc between case cast cross desc distinct else end except exists false fetch " +
	"for from full group having ilike in inner intersect is isnull join lateral left like limit natural not notnull " +
	"null offset on or order qualify right select semi similar some table tablesample then true union using values " +
	"when where window with")

// functionWords are reserved words that are functions if a parenthesis follows.
var functionWords = set("left right any")

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}
