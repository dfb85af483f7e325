package expr

import (
	"strings"
	"unicode/utf8"
)

// textMap computes a text from each text.
type textMap struct {
	a source[string]
	f func(x *exec, s string) string
}

func (o textMap) eval(x *exec) (vec[string], error) {
	v, err := o.a.eval(x)
	if err != nil {
		return vec[string]{}, err
	}
	out := x.allocTexts(x.n)
	for i, s := range v.v[:len(out)] {
		if bitSet(v.valid, i) {
			out[i] = o.f(x, s)
		} else {
			out[i] = ""
		}
	}
	return vec[string]{out, v.valid}, nil
}

// compileText returns a function whose result is a text.
func compileText(n *node) (any, error) {
	switch n.op {
	case OpConcat:
		return compileConcat(n)
	case OpSubstring:
		return compileSubstring(n)
	case OpReplace:
		return compileReplace(n)
	}
	a, err := compile[string](n.args[0])
	if err != nil {
		return nil, err
	}
	switch n.op {
	case OpLower:
		return textMap{a, func(x *exec, s string) string { return changeCase(x, s, 'A', 'Z', strings.ToLower) }}, nil
	case OpUpper:
		return textMap{a, func(x *exec, s string) string { return changeCase(x, s, 'a', 'z', strings.ToUpper) }}, nil
	case OpTrim:
		return textMap{a, func(_ *exec, s string) string { return strings.Trim(s, " ") }}, nil
	}
	return nil, nil
}

// changeCase changes the letters from first to last of ASCII by a bit, and other texts by a function.
func changeCase(x *exec, s string, first, last byte, f func(string) string) string {
	changes := false
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return f(s)
		}
		changes = changes || c >= first && c <= last
	}
	if !changes {
		return s
	}
	start := len(x.bytes)
	x.bytes = append(x.bytes, s...)
	out := x.bytes[start:]
	for i, c := range out {
		if c >= first && c <= last {
			out[i] = c ^ ('a' - 'A')
		}
	}
	return stringOf(out)
}

// textArg is an operand of a text function: a constant, or the values of a source.
type textArg struct {
	source[string]
	constant   string
	isConstant bool
	v          vec[string]
}

func compileTextArgs(n *node) ([]textArg, error) {
	args := make([]textArg, len(n.args))
	for i, a := range n.args {
		s, err := compile[string](a)
		if err != nil {
			return nil, err
		}
		args[i].source = s
		args[i].constant, args[i].isConstant = constantOf(s)
	}
	return args, nil
}

// evalTexts returns the operands with their values, and the rows for which all have one.
func evalTexts(x *exec, args []textArg) ([]textArg, []uint64, error) {
	out := make([]textArg, len(args))
	copy(out, args)
	var valid []uint64
	for i := range out {
		if out[i].isConstant {
			continue
		}
		var err error
		if out[i].v, err = out[i].eval(x); err != nil {
			return nil, nil, err
		}
		valid = both(x, valid, out[i].v.valid)
	}
	return out, valid, nil
}

func (a *textArg) at(i int) string {
	if a.isConstant {
		return a.constant
	}
	return a.v.v[i]
}

// concatOp joins texts.
type concatOp struct{ args []textArg }

func compileConcat(n *node) (any, error) {
	args, err := compileTextArgs(n)
	return concatOp{args}, err
}

func (o concatOp) eval(x *exec) (vec[string], error) {
	args, valid, err := evalTexts(x, o.args)
	if err != nil {
		return vec[string]{}, err
	}
	out := x.allocTexts(x.n)
	for i := range out {
		if !bitSet(valid, i) {
			out[i] = ""
			continue
		}
		start := len(x.bytes)
		for j := range args {
			x.bytes = append(x.bytes, args[j].at(i)...)
		}
		out[i] = stringOf(x.bytes[start:])
	}
	return vec[string]{out, valid}, nil
}

// replaceOp replaces all occurrences of a text. The empty text occurs nowhere.
type replaceOp struct{ args []textArg }

func compileReplace(n *node) (any, error) {
	args, err := compileTextArgs(n)
	return replaceOp{args}, err
}

func (o replaceOp) eval(x *exec) (vec[string], error) {
	args, valid, err := evalTexts(x, o.args)
	if err != nil {
		return vec[string]{}, err
	}
	out := x.allocTexts(x.n)
	for i := range out {
		if !bitSet(valid, i) {
			out[i] = ""
			continue
		}
		s, old, with := args[0].at(i), args[1].at(i), args[2].at(i)
		if old == "" || !strings.Contains(s, old) {
			out[i] = s
			continue
		}
		start := len(x.bytes)
		for {
			k := strings.Index(s, old)
			if k < 0 {
				break
			}
			x.bytes = append(append(x.bytes, s[:k]...), with...)
			s = s[k+len(old):]
		}
		x.bytes = append(x.bytes, s...)
		out[i] = stringOf(x.bytes[start:])
	}
	return vec[string]{out, valid}, nil
}

// substringOp is a part of a text, by characters.
type substringOp struct {
	a             source[string]
	start, length source[int64] // length may be nil
}

func compileSubstring(n *node) (any, error) {
	a, err := compile[string](n.args[0])
	if err != nil {
		return nil, err
	}
	o := substringOp{a: a}
	if o.start, err = compile[int64](n.args[1]); err == nil && len(n.args) == 3 {
		o.length, err = compile[int64](n.args[2])
	}
	return o, err
}

func (o substringOp) eval(x *exec) (vec[string], error) {
	v, err := o.a.eval(x)
	if err != nil {
		return vec[string]{}, err
	}
	start, length, valid := int64(0), int64(1<<62), v.valid
	var starts, lengths []int64
	for i, s := range []source[int64]{o.start, o.length} {
		if s == nil {
			continue
		}
		c, constant := constantOf(s)
		var values vec[int64]
		if !constant {
			if values, err = s.eval(x); err != nil {
				return vec[string]{}, err
			}
			valid = both(x, valid, values.valid)
		}
		if i == 0 {
			start, starts = c, values.v
		} else {
			length, lengths = c, values.v
		}
	}
	out := x.allocTexts(x.n)
	for i, s := range v.v[:len(out)] {
		out[i] = ""
		if !bitSet(valid, i) {
			continue
		}
		if starts != nil {
			start = starts[i]
		}
		if lengths != nil {
			length = lengths[i]
		}
		out[i] = substring(s, start, length)
	}
	return vec[string]{out, valid}, nil
}

// substring returns length characters of s from start, 1 for the first. A start before the first character counts for
// the length; a negative one is relative to the end.
func substring(s string, start, length int64) string {
	if length <= 0 || len(s) == 0 {
		return ""
	}
	from := start - 1
	if start < 0 {
		from = int64(utf8.RuneCountInString(s)) + max(start, -1<<40)
	}
	to := max(from, -1<<40) + min(length, 1<<61)
	if to <= 0 {
		return ""
	}
	s = skip(s, max(from, 0))
	return s[:len(s)-len(skip(s, to-max(from, 0)))]
}

// skip returns s without its first n characters.
func skip(s string, n int64) string {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s[i:]
}

// compileLength returns the number of characters of a text, or of bytes.
func compileLength(n *node) (any, error) {
	a, err := compile[string](n.args[0])
	if n.args[0].class() == binary {
		return mapOp[string, int64]{a, func(out []int64, a []string) {
			for i, s := range a {
				out[i] = int64(len(s))
			}
		}}, err
	}
	return mapOp[string, int64]{a, func(out []int64, a []string) {
		for i, s := range a {
			out[i] = int64(utf8.RuneCountInString(s))
		}
	}}, err
}

// textTest is a condition on two texts.
type textTest struct {
	args []textArg
	f    func(s, t string) bool
}

func (o textTest) test(x *exec) (bitvec, error) {
	args, valid, err := evalTexts(x, o.args)
	if err != nil {
		return bitvec{}, err
	}
	hits := alloc[bool](x, x.n)
	for i := range hits {
		hits[i] = bitSet(valid, i) && o.f(args[0].at(i), args[1].at(i))
	}
	return packed(x, hits, valid), nil
}

// textMatch is a condition on a text with a constant pattern.
type textMatch struct {
	a source[string]
	f func(s string) bool
}

func (o textMatch) test(x *exec) (bitvec, error) {
	v, err := o.a.eval(x)
	if err != nil {
		return bitvec{}, err
	}
	hits := alloc[bool](x, x.n)
	for i, s := range v.v[:len(hits)] {
		hits[i] = o.f(s)
	}
	return packed(x, hits, v.valid), nil
}

// compileTextTest returns Contains, StartsWith, EndsWith and Like.
func compileTextTest(n *node) (predicate, error) {
	args, err := compileTextArgs(n)
	if err != nil {
		return nil, err
	}
	tests := map[Op]func(s, t string) bool{OpContains: strings.Contains, OpStartsWith: strings.HasPrefix,
		OpEndsWith: strings.HasSuffix, OpLike: func(s, pattern string) bool { return newLike(pattern).match(s) }}
	f := tests[n.op]
	if !args[1].isConstant {
		return textTest{args, f}, nil
	}
	c := args[1].constant
	a := args[0].source
	if n.op != OpLike {
		return textMatch{a, func(s string) bool { return f(s, c) }}, nil
	}
	l := newLike(c)
	switch {
	case l.hasSingle():
	case len(l.middle) == 0 && !l.open:
		return compareConst[string]{OpEq, a, l.first}, nil
	case len(l.middle) == 0 && l.last == "":
		return textMatch{a, func(s string) bool { return strings.HasPrefix(s, l.first) }}, nil
	case len(l.middle) == 0 && l.first == "":
		return textMatch{a, func(s string) bool { return strings.HasSuffix(s, l.last) }}, nil
	case len(l.middle) == 1 && l.first == "" && l.last == "":
		return textMatch{a, func(s string) bool { return strings.Contains(s, l.middle[0]) }}, nil
	}
	return textMatch{a, l.match}, nil
}

// like is a pattern of Like: segments that are separated by %.
type like struct {
	first, last string
	middle      []string // not empty
	open        bool     // whether the pattern has a %
}

func newLike(pattern string) *like {
	parts := strings.Split(pattern, "%")
	l := &like{first: parts[0], open: len(parts) > 1}
	if l.open {
		l.last = parts[len(parts)-1]
		for _, p := range parts[1 : len(parts)-1] {
			if p != "" {
				l.middle = append(l.middle, p)
			}
		}
	}
	return l
}

// hasSingle reports whether the pattern has a _.
func (l *like) hasSingle() bool {
	return strings.Contains(l.first, "_") || strings.Contains(l.last, "_") ||
		strings.Contains(strings.Join(l.middle, ""), "_")
}

func (l *like) match(s string) bool {
	n, ok := prefix(s, l.first)
	if !ok {
		return false
	}
	s = s[n:]
	if !l.open {
		return s == ""
	}
	// The first occurrence of each segment leaves the most for those that follow.
	for _, p := range l.middle {
		if s, ok = after(s, p); !ok {
			return false
		}
	}
	return suffix(s, l.last)
}

// prefix returns the number of bytes of s that a segment matches at its start.
func prefix(s, segment string) (int, bool) {
	if !strings.Contains(segment, "_") {
		return len(segment), strings.HasPrefix(s, segment)
	}
	at := 0
	for i := range len(segment) {
		switch {
		case at == len(s):
			return 0, false
		case segment[i] == '_':
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
		case segment[i] != s[at]:
			return 0, false
		default:
			at++
		}
	}
	return at, true
}

// after returns the rest of s after the first occurrence of a segment.
func after(s, segment string) (string, bool) {
	if !strings.Contains(segment, "_") {
		i := strings.Index(s, segment)
		if i < 0 {
			return "", false
		}
		return s[i+len(segment):], true
	}
	for {
		if n, ok := prefix(s, segment); ok {
			return s[n:], true
		}
		if s == "" {
			return "", false
		}
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
}

// suffix reports whether a segment matches the end of s.
func suffix(s, segment string) bool {
	if !strings.Contains(segment, "_") {
		return strings.HasSuffix(s, segment)
	}
	start := len(s) // of as many characters as the segment has
	for range utf8.RuneCountInString(segment) {
		if start == 0 {
			return false
		}
		_, size := utf8.DecodeLastRuneInString(s[:start])
		start -= size
	}
	n, ok := prefix(s[start:], segment)
	return ok && start+n == len(s)
}
