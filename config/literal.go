package config

import (
	"errors"
	"fmt"
	"strings"
)

// errNoLiteral corresponds to Python's SyntaxError or ValueError: the text is then used as it is.
var errNoLiteral = errors.New("not a Python literal")

// errUnhashable corresponds to Python's TypeError, which Dask does not catch.
var errUnhashable = errors.New("a list, set or dictionary cannot be a key of a dictionary or a member of a set")

// maxBrackets is the limit of the Python tokenizer.
const maxBrackets = 200

// Interpret parses the value of a DASK_* variable like Dask: a Python literal if it is one (True, 12, 1e6, "text", [1,
// 2], {"a": 1}), otherwise none, null, true or false in any case, otherwise the text itself. The only error is a
// dictionary or set that Python could not build.
func Interpret(text string) (any, error) {
	v, err := parseLiteral(text)
	switch {
	case err == nil:
		return v, nil
	case !errors.Is(err, errNoLiteral):
		return nil, err
	}
	switch strings.ToLower(text) {
	case "none", "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return text, nil
}

// parseLiteral implements Python's ast.literal_eval.
func parseLiteral(text string) (any, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	text = strings.TrimLeft(text, " \t")
	if strings.ContainsRune(text, 0) {
		return nil, errNoLiteral
	}
	p := &literal{text: text}
	for {
		line, rest, more := strings.Cut(p.text, "\n")
		if trimmed := strings.TrimLeft(line, " \t\f"); !more || trimmed != "" && trimmed[0] != '#' {
			break
		}
		p.text = rest // blank lines may precede it, but no indentation after them
		if strings.TrimLeft(rest, " \t\f") != rest {
			first, _, _ := strings.Cut(strings.TrimLeft(rest, " \t\f"), "\n")
			if first != "" && first[0] != '#' {
				return nil, errNoLiteral
			}
		}
	}
	n, err := p.expressions("")
	if err != nil {
		return nil, err
	}
	p.space()
	for p.peek() == '\n' {
		p.at++
		p.space()
	}
	if p.at != len(p.text) {
		return nil, errNoLiteral
	}
	if p.unhashable {
		return nil, fmt.Errorf("%w: %s", errUnhashable, clip(p.text))
	}
	return n.value, nil
}

// literal is the state of the parser.
type literal struct {
	text  string
	at    int
	depth int // open brackets, inside which line ends count as spaces
	// unhashable is set if a key is not hashable.
	unhashable bool
}

// term is a value, and the arithmetic that Python allows with it.
type term struct {
	value  any
	number bool // a number without a sign
	signed bool // a number with or without one
}

func (p *literal) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// space skips blanks and comments, and line ends inside brackets or after a backslash.
func (p *literal) space() {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || c == '\f' || c == '\n' && p.depth > 0:
			p.at++
		case c == '\\' && strings.HasPrefix(p.text[p.at:], "\\\n") && p.at+2 < len(p.text):
			p.at += 2
		case c == '#':
			if end := strings.IndexByte(p.text[p.at:], '\n'); end >= 0 {
				p.at += end
			} else {
				p.at = len(p.text)
			}
		default:
			return
		}
	}
}

// take skips blanks and then c, if present.
func (p *literal) take(c byte) bool {
	p.space()
	if p.peek() != c || c == 0 {
		return false
	}
	p.at++
	return true
}

// expressions parses values separated by commas, up to one of the closing characters. A comma makes a tuple.
func (p *literal) expressions(closing string) (term, error) {
	first, err := p.expression()
	if err != nil {
		return term{}, err
	}
	if !p.take(',') {
		return first, nil
	}
	items := Tuple{first.value}
	for {
		p.space()
		if c := p.peek(); c == 0 || c == '\n' || strings.IndexByte(closing, c) >= 0 {
			return term{value: items}, nil
		}
		next, err := p.expression()
		if err != nil {
			return term{}, err
		}
		items = append(items, next.value)
		if !p.take(',') {
			return term{value: items}, nil
		}
	}
}

// expression parses one value. The only arithmetic is a sign, and a complex number as a sum.
func (p *literal) expression() (term, error) {
	left, err := p.signed()
	if err != nil {
		return term{}, err
	}
	p.space()
	op := p.peek()
	if op != '+' && op != '-' {
		return left, nil
	}
	p.at++
	right, err := p.atom()
	if err != nil {
		return term{}, err
	}
	imaginary, ok := right.value.(complex128)
	if !left.signed || !right.number || !ok {
		return term{}, errNoLiteral
	}
	var sum complex128
	switch l := left.value.(type) {
	case int64:
		sum = complex(float64(l), 0)
	case float64:
		sum = complex(l, 0)
	default:
		return term{}, errNoLiteral
	}
	if op == '-' {
		imaginary = -imaginary
	}
	return term{value: sum + imaginary}, nil
}

func (p *literal) signed() (term, error) {
	p.space()
	sign := p.peek()
	if sign != '+' && sign != '-' {
		return p.atom()
	}
	p.at++
	n, err := p.atom()
	if err != nil {
		return term{}, err
	}
	if !n.number {
		return term{}, errNoLiteral
	}
	if sign == '-' {
		n.value = negate(n.value)
	}
	return term{value: n.value, signed: true}, nil
}

func (p *literal) atom() (term, error) {
	p.space()
	switch c := p.peek(); {
	case c == '(' || c == '[' || c == '{':
		return p.brackets(c)
	case c >= '0' && c <= '9' || c == '.':
		return p.number()
	case c == '"' || c == '\'':
		return p.strings()
	case isLetter(c):
		word := p.word()
		switch word {
		case "True":
			return term{value: true}, nil
		case "False":
			return term{value: false}, nil
		case "None":
			return term{}, nil
		case "set":
			if p.take('(') && p.take(')') {
				return term{value: Set{}}, nil
			}
			return term{}, errNoLiteral
		}
		if c := p.peek(); c == '"' || c == '\'' {
			p.at -= len(word)
			return p.strings()
		}
	}
	return term{}, errNoLiteral
}

func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *literal) word() string {
	start := p.at
	for p.at < len(p.text) && (isLetter(p.text[p.at]) || p.text[p.at] >= '0' && p.text[p.at] <= '9' ||
		p.text[p.at] >= 0x80) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *literal) brackets(open byte) (term, error) {
	p.at++
	if p.depth++; p.depth > maxBrackets {
		return term{}, errNoLiteral
	}
	var n term
	var err error
	switch open {
	case '(':
		n, err = p.parens()
	case '[':
		var items []any
		items, err = p.items(']', nil)
		n = term{value: List(items)}
	default:
		n, err = p.braces()
	}
	p.depth--
	return n, err
}

func (p *literal) parens() (term, error) {
	if p.take(')') {
		return term{value: Tuple{}}, nil
	}
	n, err := p.expressions(")")
	if err != nil {
		return term{}, err
	}
	if !p.take(')') {
		return term{}, errNoLiteral
	}
	return n, nil
}

// items parses values up to the closing bracket, after those already parsed.
func (p *literal) items(closing byte, items []any) ([]any, error) {
	if items == nil {
		items = []any{}
	}
	for !p.take(closing) {
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, n.value)
		if !p.take(',') {
			if p.take(closing) {
				break
			}
			return nil, errNoLiteral
		}
	}
	return items, nil
}

// braces parses a dictionary or a set. An unhashable key is reported only if the whole text is a literal, as in Python.
func (p *literal) braces() (term, error) {
	if p.take('}') {
		return term{value: &Map{}}, nil
	}
	first, err := p.expression()
	if err != nil {
		return term{}, err
	}
	if !p.take(':') {
		items := []any{first.value}
		if p.take(',') {
			items, err = p.items('}', items)
		} else if !p.take('}') {
			err = errNoLiteral
		}
		if err != nil {
			return term{}, err
		}
		return p.set(items), nil
	}
	m := &Map{}
	for key := first; ; {
		value, err := p.expression()
		if err != nil {
			return term{}, err
		}
		if !m.put(key.value, value.value, Source{}) {
			p.unhashable = true
		}
		if p.take('}') {
			return term{value: m}, nil
		}
		if !p.take(',') {
			return term{}, errNoLiteral
		}
		if p.take('}') {
			return term{value: m}, nil
		}
		if key, err = p.expression(); err != nil {
			return term{}, err
		}
		if !p.take(':') {
			return term{}, errNoLiteral
		}
	}
}

// set removes equal members.
func (p *literal) set(items []any) term {
	seen := &Map{}
	set := Set{}
	for _, item := range items {
		if seen.has(item) {
			continue
		}
		if !seen.put(item, nil, Source{}) {
			p.unhashable = true
		}
		set = append(set, item)
	}
	return term{value: set}
}
