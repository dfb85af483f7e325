package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
	"unsafe"
)

// jsonKind is the kind of a value of JSON.
type jsonKind byte

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonNested // an array or object, as its text
)

func (k jsonKind) String() string {
	return [...]string{"null", "a boolean", "a number", "a text", "an array or object"}[k]
}

// jsonValue is a value with its text, that of a string without quotes and escapes. It is valid until the next value.
type jsonValue struct {
	kind jsonKind
	text []byte
}

// view returns the text without a copy.
func (v jsonValue) view() string {
	if len(v.text) == 0 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(v.text), len(v.text))
}

// jsonLine parses the object of one line, with its fields as they come.
type jsonLine struct {
	b  []byte
	at int
}

func (l *jsonLine) space() {
	for l.at < len(l.b) && (l.b[l.at] == ' ' || l.b[l.at] == '\t' || l.b[l.at] == '\r') {
		l.at++
	}
}

// peek returns the next byte after spaces, 0 at the end.
func (l *jsonLine) peek() byte {
	if l.space(); l.at < len(l.b) {
		return l.b[l.at]
	}
	return 0
}

// fields calls take with every field of the object. It returns errors of take as they are.
func (l *jsonLine) fields(take func(name []byte, v jsonValue) error) error {
	switch l.peek() {
	case '{':
	case '[':
		return errors.New("line begins with an array; want one object in each line")
	default:
		return fmt.Errorf("%.40q is not a JSON object; want one in each line", l.b)
	}
	l.at++
	if l.peek() == '}' {
		l.at++
		return l.end()
	}
	for {
		if l.peek() != '"' {
			return l.bad("want the name of a field")
		}
		name, err := l.string()
		if err != nil {
			return err
		}
		if l.peek() != ':' {
			return l.bad(fmt.Sprintf("want a colon after field %q", name))
		}
		l.at++
		v, err := l.value()
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		if err := take(name, v); err != nil {
			return err
		}
		switch l.peek() {
		case ',':
			l.at++
		case '}':
			l.at++
			return l.end()
		default:
			return l.bad(fmt.Sprintf("want a comma or brace after field %q", name))
		}
	}
}

// end returns an error if the object is not the end of the line.
func (l *jsonLine) end() error {
	if l.peek() != 0 || l.at < len(l.b) {
		return l.bad("want the end of the line")
	}
	return nil
}

func (l *jsonLine) bad(want string) error {
	if l.at >= len(l.b) {
		return fmt.Errorf("invalid JSON: line ends; %s", want)
	}
	return fmt.Errorf("invalid JSON at %.20q (byte %d of the line); %s", l.b[l.at:], l.at+1, want)
}

func (l *jsonLine) value() (jsonValue, error) {
	switch c := l.peek(); {
	case c == '"':
		text, err := l.string()
		return jsonValue{jsonString, text}, err
	case c == '{' || c == '[':
		return l.nested()
	case c == '-' || c >= '0' && c <= '9':
		return l.number()
	}
	from := l.at
	for _, w := range []struct {
		text string
		kind jsonKind
	}{{"null", jsonNull}, {"true", jsonBool}, {"false", jsonBool}} {
		if bytes.HasPrefix(l.b[from:], []byte(w.text)) {
			l.at += len(w.text)
			return jsonValue{w.kind, l.b[from:l.at]}, nil
		}
	}
	return jsonValue{}, l.bad("want a value")
}

// string parses a string and returns its value.
func (l *jsonLine) string() ([]byte, error) {
	from := l.at
	escaped := false
	for l.at++; l.at < len(l.b); l.at++ {
		switch c := l.b[l.at]; {
		case c == '\\':
			escaped = true
			l.at++
		case c < ' ':
			return nil, l.bad("want an escaped control character")
		case c == '"':
			l.at++
			if !escaped {
				if out := l.b[from+1 : l.at-1]; utf8.Valid(out) {
					return out, nil
				}
				return nil, fmt.Errorf("%.40q is not valid UTF-8", l.b[from:l.at])
			}
			var out string
			if err := json.Unmarshal(l.b[from:l.at], &out); err != nil {
				return nil, fmt.Errorf("%.40q: %w", l.b[from:l.at], err)
			}
			return []byte(out), nil
		}
	}
	l.at = len(l.b)
	return nil, l.bad("want the end of a text")
}

// nested returns the text of an array or object.
func (l *jsonLine) nested() (jsonValue, error) {
	from, depth := l.at, 0
	for l.at < len(l.b) {
		switch l.b[l.at] {
		case '"':
			if _, err := l.string(); err != nil {
				return jsonValue{}, err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if l.at++; depth == 0 {
			if out := l.b[from:l.at]; json.Valid(out) {
				return jsonValue{jsonNested, out}, nil
			}
			return jsonValue{}, fmt.Errorf("invalid JSON: %.40q", l.b[from:l.at])
		}
	}
	return jsonValue{}, l.bad("want the end of an array or object")
}

func (l *jsonLine) digits() bool {
	from := l.at
	for l.at < len(l.b) && l.b[l.at] >= '0' && l.b[l.at] <= '9' {
		l.at++
	}
	return l.at > from
}

func (l *jsonLine) number() (jsonValue, error) {
	from := l.at
	if l.b[l.at] == '-' {
		l.at++
	}
	zero := l.at < len(l.b) && l.b[l.at] == '0'
	first := l.at
	ok := l.digits() && !(zero && l.at-first > 1)
	if ok && l.at < len(l.b) && l.b[l.at] == '.' {
		l.at++
		ok = l.digits()
	}
	if ok && l.at < len(l.b) && (l.b[l.at] == 'e' || l.b[l.at] == 'E') {
		if l.at++; l.at < len(l.b) && (l.b[l.at] == '+' || l.b[l.at] == '-') {
			l.at++
		}
		ok = l.digits()
	}
	if !ok {
		l.at = from
		return jsonValue{}, l.bad("want a number")
	}
	return jsonValue{jsonNumber, l.b[from:l.at]}, nil
}
