package sqltext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexer splits a text into tokens.
type lexer struct {
	text string
	at   int
	pos  Pos
}

// symbols are the operators and punctuation of more than one character, longest first.
var symbols = []string{"->>", "!~~", "::", "||", "<=", ">=", "<>", "!=", "==", "//", "**", "->", "=>", "~~", "!~"}

// tokens returns all tokens of a text, the last of which is the end.
func tokens(text string) ([]token, error) {
	l := lexer{text: text, pos: Pos{1, 1}}
	var out []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		if len(out) == maxTokens {
			return nil, Errorf(t.pos, "the statement has more than %d tokens; put long lists into a table", maxTokens)
		}
		out = append(out, t)
		if t.kind == endToken {
			return out, nil
		}
	}
}

// advance skips n bytes.
func (l *lexer) advance(n int) {
	for _, r := range l.text[l.at : l.at+n] {
		if r == '\n' {
			l.pos = Pos{l.pos.Line + 1, 1}
		} else {
			l.pos.Column++
		}
	}
	l.at += n
}

func (l *lexer) rest() string { return l.text[l.at:] }

func (l *lexer) next() (token, error) {
	if err := l.skipSpace(); err != nil {
		return token{}, err
	}
	start := l.pos
	rest := l.rest()
	if rest == "" {
		return token{kind: endToken, pos: start}, nil
	}
	c := rest[0]
	switch {
	case c == '\'':
		return l.quoted('\'', stringToken, "string")
	case c == '"':
		return l.quoted('"', quotedToken, "quoted name")
	case c >= '0' && c <= '9', c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		return l.number()
	}
	if n := wordLength(rest); n > 0 {
		if n == 1 && len(rest) > 1 && rest[1] == '\'' && strings.ContainsRune("eEbBxXnN", rune(c)) {
			return token{}, Unsupported(start, "a string with the prefix "+rest[:1])
		}
		return l.take(wordToken, n), nil
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s) {
			return l.take(symbolToken, len(s)), nil
		}
	}
	if strings.IndexByte("+-*/%^()[]{},;.<>=:~&|!", c) >= 0 {
		return l.take(symbolToken, 1), nil
	}
	switch c {
	case '$':
		return token{}, Unsupported(start, "a parameter or dollar-quoted string ($)")
	case '?':
		return token{}, Unsupported(start, "a parameter (?)")
	}
	r, n := utf8.DecodeRuneInString(rest)
	if r == utf8.RuneError && n == 1 {
		return token{}, Errorf(start, "the text is not UTF-8: byte 0x%02x", c)
	}
	return token{}, Errorf(start, "unexpected character %q", r)
}

// take returns the next n bytes as a token.
func (l *lexer) take(k kind, n int) token {
	t := token{kind: k, text: l.text[l.at : l.at+n], pos: l.pos}
	t.key = strings.ToLower(t.text)
	l.advance(n)
	return t
}

// wordLength returns the length of the word at the start of a text.
func wordLength(s string) int {
	for i, r := range s {
		letter := r == '_' || unicode.IsLetter(r)
		if r == utf8.RuneError || !letter && (i == 0 || !unicode.IsDigit(r) && r != '$') {
			return i
		}
	}
	return len(s)
}

// skipSpace skips white space and comments, which nest as in PostgreSQL.
func (l *lexer) skipSpace() error {
	for l.at < len(l.text) {
		rest := l.rest()
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsSpace(r):
			l.advance(n)
		case strings.HasPrefix(rest, "--"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.advance(end)
		case strings.HasPrefix(rest, "/*"):
			if err := l.skipComment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) skipComment() error {
	start, depth, rest := l.pos, 0, l.rest()
	for i := 0; i+1 < len(rest); i++ {
		switch rest[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				l.advance(i + 1)
				return nil
			}
		}
	}
	return Errorf(start, "the comment has no end; add */")
}

// quoted returns a token in quotes, which are doubled inside.
func (l *lexer) quoted(quote byte, k kind, what string) (token, error) {
	start, rest := l.pos, l.rest()
	var text strings.Builder
	for i := 1; i < len(rest); i++ {
		if rest[i] != quote {
			text.WriteByte(rest[i])
			continue
		}
		if i+1 < len(rest) && rest[i+1] == quote {
			text.WriteByte(quote)
			i++
			continue
		}
		if !utf8.ValidString(text.String()) {
			return token{}, Errorf(start, "the %s is not UTF-8", what)
		}
		if k == quotedToken && text.Len() == 0 {
			return token{}, Errorf(start, "the quoted name is empty")
		}
		l.advance(i + 1)
		return token{kind: k, text: text.String(), key: text.String(), pos: start}, nil
	}
	return token{}, Errorf(start, "the %s has no end; add %c", what, quote)
}

// number returns an integer, a decimal or, with an exponent, a float.
func (l *lexer) number() (token, error) {
	start, rest := l.pos, l.rest()
	digits := func(i int) int {
		for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
			i++
		}
		return i
	}
	k, end := integerToken, digits(0)
	if end < len(rest) && rest[end] == '.' {
		k, end = decimalToken, digits(end+1)
	}
	if end < len(rest) && (rest[end] == 'e' || rest[end] == 'E') {
		i := end + 1
		if i < len(rest) && (rest[i] == '+' || rest[i] == '-') {
			i++
		}
		if j := digits(i); j > i {
			k, end = floatToken, j
		}
	}
	if wordLength(rest[end:]) > 0 {
		return token{}, Errorf(start, "%q is no number", rest[:end+wordLength(rest[end:])])
	}
	return l.take(k, end), nil
}
