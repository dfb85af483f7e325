package config

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The tags of YAML 1.1 that a plain scalar can resolve to.
const (
	tagNull  = "!!null"
	tagBool  = "!!bool"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagStr   = "!!str"
	tagTime  = "!!timestamp"
	tagMerge = "!!merge"
	tagValue = "!!value"
)

// The rules by which PyYAML resolves plain scalars, in its order. It is YAML 1.1 with deviations: an exponent needs a
// sign and a dot, "0o17" is text and "017" is fifteen.
var plainTags = []struct {
	tag string
	re  *regexp.Regexp
}{
	{tagBool, regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)},
	{tagFloat,
		regexp.MustCompile(
			`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)},
	{tagInt,
		regexp.MustCompile(
			`^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)},
	{tagMerge, regexp.MustCompile(`^<<$`)},
	{tagNull, regexp.MustCompile(`^(?:~|null|Null|NULL|)$`)},
	{tagTime,
		regexp.MustCompile(
			`^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?)$`)},
	{tagValue, regexp.MustCompile(`^=$`)},
}

// plainTag returns the tag of a scalar without quotes and without an explicit tag.
func plainTag(text string) string {
	for _, p := range plainTags {
		if p.re.MatchString(text) {
			return p.tag
		}
	}
	return tagStr
}

// scalar returns the value that PyYAML's safe constructor makes of a tag and a text.
func scalar(tag, text string) (any, error) {
	switch tag {
	case tagStr:
		return text, nil
	case tagNull:
		return nil, nil
	case tagBool:
		if b, ok := boolWord(text); ok {
			return b, nil
		}
		return nil, fmt.Errorf("%q is not a boolean", text)
	case tagInt:
		return yamlInt(text)
	case tagFloat:
		return yamlFloat(text)
	case tagTime:
		return yamlTime(text)
	case "!!binary":
		b, err := base64.StdEncoding.DecodeString(strings.Map(base64Only, text))
		if err != nil {
			return nil, fmt.Errorf("!!binary: %w", err)
		}
		return b, nil
	case tagMerge, tagValue:
		return nil, fmt.Errorf("%q has a special meaning; write %q in quotes", text, text)
	}
	return nil, fmt.Errorf("tag %s is not allowed in a configuration", tag)
}

// base64Only drops characters that Python's decoder skips.
func base64Only(r rune) rune {
	if r < 0x80 && (isLetter(byte(r)) && r != '_' || r >= '0' && r <= '9' || r == '+' || r == '/' || r == '=') {
		return r
	}
	return -1
}

// boolWord parses YAML 1.1's boolean words in any case.
func boolWord(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "yes", "true", "on":
		return true, true
	case "no", "false", "off":
		return false, true
	}
	return false, false
}

// maxDigits is Python's limit of decimal digits of an integer.
const maxDigits = 4300

// integer returns an int64 if it fits.
func integer(digits string, base int) (any, error) {
	if n, err := strconv.ParseInt(digits, base, 64); err == nil {
		return n, nil
	}
	if base&(base-1) != 0 && len(digits) > maxDigits {
		return nil, fmt.Errorf("an integer of %d digits is too long; the limit is %d", len(digits), maxDigits)
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return nil, fmt.Errorf("%q is not an integer", digits)
	}
	return n, nil
}

func negate(v any) any {
	switch n := v.(type) {
	case int64:
		if n != -n || n == 0 { // all but the smallest
			return -n
		}
		return new(big.Int).Neg(big.NewInt(n))
	case *big.Int:
		n = new(big.Int).Neg(n)
		if n.IsInt64() {
			return n.Int64()
		}
		return n
	case float64:
		return -n
	case complex128:
		return -n
	}
	return v
}

func cutSign(text string) (rest string, negative bool) {
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		return rest, true
	}
	return strings.TrimPrefix(text, "+"), false
}

func yamlInt(text string) (any, error) {
	digits, negative := cutSign(strings.ReplaceAll(text, "_", ""))
	var n any
	var err error
	switch {
	case digits == "0":
		return int64(0), nil
	case strings.HasPrefix(digits, "0b"):
		n, err = integer(digits[2:], 2)
	case strings.HasPrefix(digits, "0x"):
		n, err = integer(digits[2:], 16)
	case strings.HasPrefix(digits, "0"):
		n, err = integer(strings.TrimPrefix(digits, "0o"), 8) // 0o only with an explicit !!int
	case strings.Contains(digits, ":"):
		n, err = sexagesimal(digits)
	default:
		n, err = integer(digits, 10)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not an integer: %w", clip(text), err)
	}
	if negative {
		n = negate(n)
	}
	return n, nil
}

// sexagesimal parses 190:20:30, in base sixty.
func sexagesimal(text string) (any, error) {
	total, sixty := new(big.Int), big.NewInt(60)
	if len(text) > maxDigits {
		return nil, fmt.Errorf("%d characters are too many", len(text))
	}
	for part := range strings.SplitSeq(text, ":") {
		n, ok := new(big.Int).SetString(part, 10)
		if !ok {
			return nil, fmt.Errorf("%q is not a number", part)
		}
		total.Add(total.Mul(total, sixty), n)
	}
	if total.IsInt64() {
		return total.Int64(), nil
	}
	return total, nil
}

func yamlFloat(text string) (any, error) {
	digits, negative := cutSign(strings.ToLower(strings.ReplaceAll(text, "_", "")))
	var f float64
	var err error
	switch {
	case digits == ".inf":
		f, err = parseFloat("inf")
	case digits == ".nan":
		f, err = parseFloat("nan")
	case strings.Contains(digits, ":"):
		// From the right, in PyYAML's order of addition: the rounding is the same.
		parts := strings.Split(digits, ":")
		base := 1.0
		for i := len(parts) - 1; i >= 0 && err == nil; i-- {
			var part float64
			part, err = parseFloat(parts[i])
			f += part * base
			base *= 60
		}
	default:
		f, err = parseFloat(digits)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", clip(text))
	}
	if negative {
		f = -f
	}
	return f, nil
}

// parseFloat parses like Python's float, without surrounding spaces: no hexadecimal, and values that are too large are
// infinite.
func parseFloat(text string) (float64, error) {
	if strings.ContainsAny(text, "xXpP") {
		return 0, strconv.ErrSyntax
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && strings.Contains(err.Error(), strconv.ErrRange.Error()) {
		err = nil
	}
	return f, err
}

var timeParts = regexp.MustCompile(
	`^([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:(?:[Tt]|[ \t]+)([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]*))?(?:[ \t]*(Z|([-+])([0-9]{1,2})(?::([0-9]{2}))?))?)?$`)

func yamlTime(text string) (any, error) {
	m := timeParts.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is not a timestamp", clip(text))
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(m[i]) // digits only, at most four
		return v
	}
	year, month, day := n(1), time.Month(n(2)), n(3)
	date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	if year < 1 || date.Month() != month || date.Day() != day || n(4) > 23 || n(5) > 59 || n(6) > 59 {
		return nil, fmt.Errorf("%q is not a date or time of day", text)
	}
	if m[4] == "" {
		return Date{year, month, day}, nil
	}
	micros, _ := strconv.Atoi((m[7] + "000000")[:6])
	zone := time.UTC
	if m[9] != "" {
		offset := n(10)*3600 + n(11)*60
		if offset >= 24*3600 {
			return nil, fmt.Errorf("%q: the time zone is a day or more away", text)
		}
		if m[9] == "-" {
			offset = -offset
		}
		zone = time.FixedZone("", offset)
	}
	t := time.Date(year, month, day, n(4), n(5), n(6), micros*1000, zone)
	return Time{Time: t, Naive: m[8] == ""}, nil
}

// clip bounds the length of a value in errors.
func clip(text string) string {
	if len(text) > 60 {
		return text[:57] + "..."
	}
	return text
}
