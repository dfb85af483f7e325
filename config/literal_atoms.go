package config

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	literalFloat = regexp.MustCompile(
		`^(?:(?:[0-9](?:_?[0-9])*)?\.[0-9](?:_?[0-9])*|[0-9](?:_?[0-9])*\.)(?:[eE][-+]?[0-9](?:_?[0-9])*)?|^[0-9](?:_?[0-9])*[eE][-+]?[0-9](?:_?[0-9])*`)
	literalDigits  = regexp.MustCompile(`^[0-9](?:_?[0-9])*`)
	literalDecimal = regexp.MustCompile(`^(?:[1-9](?:_?[0-9])*|0(?:_?0)*)$`)
	literalBased   = regexp.MustCompile(`^0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+)`)
)

// number parses an integer, a float or an imaginary number.
func (p *literal) number() (term, error) {
	rest := p.text[p.at:]
	var value any
	text := literalBased.FindString(rest)
	switch {
	case text != "":
		base := map[byte]int{'x': 16, 'o': 8, 'b': 2}[text[1]|0x20]
		n, err := integer(strings.ReplaceAll(text[2:], "_", ""), base)
		if err != nil {
			return term{}, errNoLiteral
		}
		value = n
	case literalFloat.MatchString(rest):
		text = literalFloat.FindString(rest)
		f, err := parseFloat(strings.ReplaceAll(text, "_", ""))
		if err != nil {
			return term{}, errNoLiteral
		}
		value = f
	default:
		if text = literalDigits.FindString(rest); text == "" {
			return term{}, errNoLiteral
		}
		if next := rest[len(text):]; next != "" && next[0]|0x20 == 'j' {
			f, err := parseFloat(strings.ReplaceAll(text, "_", ""))
			if err != nil {
				return term{}, errNoLiteral
			}
			value = f
			break
		}
		if !literalDecimal.MatchString(text) {
			return term{}, errNoLiteral // 017
		}
		n, err := integer(strings.ReplaceAll(text, "_", ""), 10)
		if err != nil {
			return term{}, errNoLiteral
		}
		value = n
	}
	p.at += len(text)
	if f, ok := value.(float64); ok && p.peek()|0x20 == 'j' {
		p.at++
		value = complex(0, f)
	}
	if c := p.peek(); isLetter(c) || c >= '0' && c <= '9' || c >= 0x80 {
		return term{}, errNoLiteral
	}
	return term{value: value, number: true, signed: true}, nil
}

// strings parses adjacent string literals, which Python concatenates.
func (p *literal) strings() (term, error) {
	var all strings.Builder
	var isBytes bool
	for n := 0; ; n++ {
		start := p.at
		prefix := p.word()
		if c := p.peek(); c != '"' && c != '\'' {
			p.at = start
			return joined(all.String(), isBytes), nil
		}
		raw, bytes, ok := stringPrefix(prefix)
		if !ok || n > 0 && bytes != isBytes {
			return term{}, errNoLiteral
		}
		isBytes = bytes
		body, ok := p.quoted()
		if !ok {
			return term{}, errNoLiteral
		}
		if bytes && strings.ContainsFunc(body, func(r rune) bool { return r >= 0x80 }) {
			return term{}, errNoLiteral
		}
		if !raw {
			if body, ok = unescape(body, bytes); !ok {
				return term{}, errNoLiteral
			}
		}
		all.WriteString(body)
		p.space()
	}
}

func joined(text string, isBytes bool) term {
	if isBytes {
		return term{value: []byte(text)}
	}
	return term{value: text}
}

// stringPrefix parses the prefixes of plain strings and bytes; f"" is not a literal.
func stringPrefix(prefix string) (raw, bytes, ok bool) {
	switch strings.ToLower(prefix) {
	case "", "u":
		return false, false, true
	case "r":
		return true, false, true
	case "b":
		return false, true, true
	case "rb", "br":
		return true, true, true
	}
	return false, false, false
}

// quoted returns the text between the quotes, including escapes.
func (p *literal) quoted() (string, bool) {
	quote := p.text[p.at : p.at+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.text[p.at:], triple) {
		quote = triple
	}
	p.at += len(quote)
	start := p.at
	for p.at < len(p.text) {
		switch {
		case strings.HasPrefix(p.text[p.at:], quote):
			p.at += len(quote)
			return p.text[start : p.at-len(quote)], true
		case p.text[p.at] == '\\':
			p.at += 2
		case p.text[p.at] == '\n' && len(quote) == 1:
			return "", false
		default:
			p.at++
		}
	}
	return "", false
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t",
	'v': "\v",
}

// unescape resolves backslashes. Unknown ones are kept, as in Python. Characters by name (\N{…}) are not supported, and
// make the text not a literal.
func unescape(body string, bytes bool) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(body); {
		if body[i] != '\\' || i+1 >= len(body) {
			b.WriteByte(body[i])
			i++
			continue
		}
		c := body[i+1]
		if plain, ok := simpleEscapes[c]; ok {
			b.WriteString(plain)
			i += 2
			continue
		}
		digits, base := 0, 16
		switch {
		case c >= '0' && c <= '7':
			for digits < 3 && i+1+digits < len(body) && body[i+1+digits] >= '0' && body[i+1+digits] <= '7' {
				digits++
			}
			base = 8
			i++
		case c == 'x':
			digits = 2
			i += 2
		case c == 'u' && !bytes:
			digits = 4
			i += 2
		case c == 'U' && !bytes:
			digits = 8
			i += 2
		case c == 'N' && !bytes:
			return "", false
		default:
			b.WriteByte('\\')
			i++
			continue
		}
		if i+digits > len(body) {
			return "", false
		}
		n, err := strconv.ParseUint(body[i:i+digits], base, 32)
		if err != nil || strings.ContainsAny(body[i:i+digits], "_+-") || n > utf8.MaxRune {
			return "", false
		}
		i += digits
		if bytes {
			b.WriteByte(byte(n))
		} else {
			b.WriteRune(rune(n)) // half of a surrogate pair becomes U+FFFD: Go's text cannot hold it
		}
	}
	return b.String(), true
}
