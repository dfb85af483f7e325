package pickle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDigits is Python's limit for the conversion of text to an int.
const maxDigits = 4300

// line reads to the end of the line, exclusive.
func (l *loader) line() (string, error) {
	n := bytes.IndexByte(l.data[l.pos:], '\n')
	if n < 0 {
		return "", fmt.Errorf("unterminated line: %w", io.ErrUnexpectedEOF)
	}
	if l.strBytes += n; l.strBytes > l.lim.StringBytes {
		return "", limitError("StringBytes", l.lim.StringBytes)
	}
	s := string(l.data[l.pos : l.pos+n])
	l.pos += n + 1
	return s, nil
}

// text executes the opcodes of protocols 0 and 1 that protocol 2 no longer needs.
func (l *loader) text(op byte) error {
	switch op {
	case opBinString, opShortBinString:
		return l.binString(op)
	}
	line, err := l.line()
	if err != nil {
		return err
	}
	switch op {
	case opInt:
		switch line {
		case "00":
			return l.push(false)
		case "01":
			return l.push(true)
		}
		return l.pushIntText(line)
	case opLong:
		return l.pushIntText(strings.TrimSuffix(line, "L"))
	case opFloat:
		f, err := strconv.ParseFloat(line, 64)
		if (err != nil && !errors.Is(err, strconv.ErrRange)) || strings.ContainsAny(line, "xXpP_") {
			return fmt.Errorf("%.40q is not a float", line)
		}
		return l.push(f)
	case opString:
		s, err := unquote(line)
		if err != nil {
			return err
		}
		return l.push(s)
	default: // opUnicode
		s, err := rawUnicodeEscape(line)
		if err != nil {
			return err
		}
		return l.push(s)
	}
}

func (l *loader) pushIntText(s string) error {
	s = strings.TrimSpace(s)
	if len(s) > maxDigits {
		return fmt.Errorf("an int of %d digits: %w", len(s), limitError("IntBytes", maxDigits))
	}
	if s != "" && s[0] >= '1' && s[0] <= '9' { // else a base may be in front, as in 0x10
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return l.push(n)
		}
	}
	x, ok := new(big.Int).SetString(s, 0)
	if !ok {
		return fmt.Errorf("%.40q is not an int", s)
	}
	return l.push(intValue(x))
}

// binString decodes a str of Python 2, which was bytes: Python 3 accepts only ASCII by default.
func (l *loader) binString(op byte) error {
	size := 1
	if op == opBinString {
		size = 4
	}
	b, err := l.counted(size)
	if err != nil {
		return err
	}
	if !ascii(b) {
		return errors.New("a str of Python 2 that is not ASCII")
	}
	return l.pushText(b)
}

func ascii[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unquote parses the repr of a str of Python 2.
func unquote(s string) (string, error) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '"' && s[0] != '\'' {
		return "", errors.New("the str is not in quotes")
	}
	s = s[1 : len(s)-1]
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		if i++; i == len(s) {
			return "", errors.New("the str ends in a backslash")
		}
		switch c := s[i]; c {
		case 'x':
			n, err := strconv.ParseUint(s[i+1:min(i+3, len(s))], 16, 8)
			if err != nil || i+3 > len(s) {
				return "", errors.New(`\x without two digits`)
			}
			out = append(out, byte(n))
			i += 2
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n := 0
			j := i
			for ; j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7'; j++ {
				n = n<<3 | int(s[j]-'0')
			}
			out = append(out, byte(n))
			i = j - 1
		default:
			if at := strings.IndexByte(`\'"abfnrtv`, c); at >= 0 {
				out = append(out, "\\'\"\a\b\f\n\r\t\v"[at])
			} else {
				out = append(out, '\\', c) // Python keeps what it does not know
			}
		}
	}
	if !ascii(out) {
		return "", errors.New("a str of Python 2 that is not ASCII")
	}
	return string(out), nil
}

// rawUnicodeEscape decodes Latin-1 in which \uxxxx and \Uxxxxxxxx are escapes, unless preceded by an odd number of
// backslashes.
func rawUnicodeEscape(s string) (string, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = utf8.AppendRune(out, rune(s[i]))
			continue
		}
		n := 0
		for i+n < len(s) && s[i+n] == '\\' {
			n++
		}
		for range n - 1 {
			out = append(out, '\\')
		}
		i += n - 1
		digits := 0
		if n%2 == 1 && i+1 < len(s) {
			switch s[i+1] {
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			}
		}
		if digits == 0 {
			out = append(out, '\\')
			continue
		}
		r, err := strconv.ParseUint(s[i+2:min(i+2+digits, len(s))], 16, 32)
		if err != nil || i+2+digits > len(s) || r > utf8.MaxRune {
			return "", errors.New("a broken escape in a str")
		}
		if r >= 0xd800 && r < 0xe000 {
			out = append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0xbf, 0x80|byte(r)&0xbf)
		} else {
			out = utf8.AppendRune(out, rune(r))
		}
		i += 1 + digits
	}
	return string(out), nil
}
