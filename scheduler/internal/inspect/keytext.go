package inspect

import (
	"strconv"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
)

// keysOf returns the keys whose text is text: the string, and the tuple that it describes, if any. It is the inverse of
// task.Key.String.
func keysOf(text string) []task.Key {
	if len(text) > maxKeyText {
		return nil
	}
	var keys []task.Key
	if k, err := task.KeyOf(text); err == nil {
		keys = append(keys, k)
	}
	p := keyParser{text: text}
	if v, ok := p.tuple(0); ok && p.text == "" {
		if k, err := task.KeyOf(v); err == nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// taskOf returns the task whose key has a text; nil for none.
func taskOf(s *state.State, text string) *state.Task {
	for _, k := range keysOf(text) {
		if t := s.Task(k); t != nil {
			return t
		}
	}
	return nil
}

// Bounds of the text of a key, and of the nesting of tuples.
const (
	maxKeyText = 4096
	maxKeyNest = 16
)

// keyParser parses a tuple as Python prints it. text is the rest.
type keyParser struct{ text string }

// skip removes a prefix, and reports whether it was there.
func (p *keyParser) skip(prefix string) bool {
	rest, ok := strings.CutPrefix(p.text, prefix)
	p.text = rest
	return ok
}

func (p *keyParser) tuple(depth int) ([]any, bool) {
	if depth > maxKeyNest || !p.skip("(") {
		return nil, false
	}
	list := []any{}
	for !p.skip(")") {
		if len(list) > 0 && !p.skip(",") {
			return nil, false
		}
		p.text = strings.TrimLeft(p.text, " ")
		if len(list) == 1 && p.skip(")") { // ('x',)
			break
		}
		v, ok := p.item(depth)
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, true
}

// item parses an element: a tuple, a string in single quotes, or a number.
func (p *keyParser) item(depth int) (any, bool) {
	switch {
	case strings.HasPrefix(p.text, "("):
		list, ok := p.tuple(depth + 1)
		return list, ok
	case p.skip("'"):
		// Quotes in the string are not escaped: it ends where a comma or the end of the tuple follows.
		for i := 0; i < len(p.text); i++ {
			if p.text[i] == '\'' && i+1 < len(p.text) && (p.text[i+1] == ',' || p.text[i+1] == ')') {
				s := p.text[:i]
				p.text = p.text[i+1:]
				return s, true
			}
		}
		return nil, false
	}
	end := strings.IndexAny(p.text, ",)")
	if end < 0 {
		return nil, false
	}
	number := p.text[:end]
	p.text = p.text[end:]
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(number, 64)
	return f, err == nil
}
