package expr

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// timeLiteral returns the type and value of a constant time: in microseconds, or in nanoseconds if it has such digits.
func timeLiteral(x time.Time) (arrow.DataType, any) {
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	if x.Nanosecond()%1000 != 0 && x.After(first) && x.Before(last) {
		return &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, x.UnixNano()
	}
	return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, x.UnixMicro()
}

// timeOfText converts a constant text to a date, or to a time if it has one.
func timeOfText(n *node) (*node, error) {
	s, _ := n.value.(string)
	at, timed, ok := parseTime(s)
	if !ok {
		return nil, typeErrorf("%q is no date or time; write it as 1995-12-31 or 1995-12-31 23:59:59", s)
	}
	out := &node{op: OpLiteral, src: n.src}
	if !timed {
		out.t, out.value = date32Type, floorDiv(at.Unix(), secondsPerDay)
		return out, nil
	}
	out.t, out.value = timeLiteral(at)
	return out, nil
}

const secondsPerDay = 24 * 60 * 60

// parseTime reads a date, "1995-12-31", or a date and time, "1995-12-31 23:59:59.5" or "1995-12-31T23:59:59Z". A time
// without a zone is in UTC. timed reports whether the text has a time.
func parseTime(s string) (at time.Time, timed, ok bool) {
	s = strings.TrimSpace(s)
	day, rest := s, ""
	if i := strings.IndexAny(s, " T"); i >= 0 {
		day, rest, timed = s[:i], s[i+1:], true
	}
	sign := 1
	if d, negative := strings.CutPrefix(day, "-"); negative {
		day, sign = d, -1
	}
	parts := strings.Split(day, "-")
	if len(parts) != 3 {
		return at, false, false
	}
	var ymd [3]int
	for i, p := range parts {
		most := 2
		if i == 0 {
			most = 6
		}
		if ymd[i], ok = readNumber(p, most); !ok {
			return at, false, false
		}
	}
	year, month, dom := sign*ymd[0], time.Month(ymd[1]), ymd[2]
	if month < 1 || month > 12 || dom < 1 || dom > daysIn(year, month) {
		return at, false, false
	}
	if !timed {
		return time.Date(year, month, dom, 0, 0, 0, 0, time.UTC), false, true
	}
	clock, offset, ok := cutZone(rest)
	if !ok {
		return at, false, false
	}
	sod, nanos, ok := parseClock(clock)
	if !ok {
		return at, false, false
	}
	at = time.Date(year, month, dom, 0, 0, 0, 0, time.UTC).Add(time.Duration(sod-offset) * time.Second)
	return at.Add(time.Duration(nanos)), true, true
}

// parseClock reads "23:59", "23:59:59" or "23:59:59.999999999".
func parseClock(s string) (seconds, nanos int, ok bool) {
	s, fraction, hasFraction := strings.Cut(s, ".")
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || hasFraction && len(parts) != 3 {
		return 0, 0, false
	}
	limits := [3]int{24, 60, 60}
	for i := range 3 {
		v := 0
		if i < len(parts) {
			if v, ok = readNumber(parts[i], 2); !ok || v >= limits[i] {
				return 0, 0, false
			}
		}
		seconds = seconds*60 + v
	}
	if hasFraction {
		if nanos, ok = readNumber(fraction, 9); !ok {
			return 0, 0, false
		}
		for range 9 - len(fraction) {
			nanos *= 10
		}
	}
	return seconds, nanos, true
}

// cutZone splits off "Z", "+01" or "+01:30". The offset is in seconds.
func cutZone(s string) (rest string, offset int, ok bool) {
	if r, found := strings.CutSuffix(s, "Z"); found {
		return r, 0, true
	}
	i := strings.LastIndexAny(s, "+-")
	if i < 0 {
		return s, 0, true
	}
	hh, mm, hasMinutes := strings.Cut(s[i+1:], ":")
	h, ok := readNumber(hh, 2)
	m := 0
	if ok && hasMinutes {
		m, ok = readNumber(mm, 2)
	}
	if !ok || h > 23 || m > 59 {
		return "", 0, false
	}
	offset = h*3600 + m*60
	if s[i] == '-' {
		offset = -offset
	}
	return strings.TrimRight(s[:i], " "), offset, true
}

// readNumber reads a number of 1 to most decimal digits.
func readNumber(s string, most int) (int, bool) {
	if len(s) == 0 || len(s) > most {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func daysIn(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// digits returns the decimal digits of an integer constant without its sign.
func digits(v any) string {
	switch x := v.(type) {
	case int64:
		return strings.TrimPrefix(strconv.FormatInt(x, 10), "-")
	case uint64:
		return strconv.FormatUint(x, 10)
	}
	return "0"
}

// inRange reports whether an integer type has the value of an integer constant.
func inRange(v any, t arrow.DataType) bool {
	bits, signed := bitsOf(t)
	switch x := v.(type) {
	case int64:
		if signed {
			return x >= -1<<(bits-1) && x <= 1<<(bits-1)-1
		}
		return x >= 0 && uint64(x) <= math.MaxUint64>>(64-bits)
	case uint64:
		if signed {
			return x <= 1<<(bits-1)-1
		}
		return x <= math.MaxUint64>>(64-bits)
	}
	return false
}

// equalValues compares values of constants. NaN equals NaN, because the expressions are the same.
func equalValues(a, b any) bool {
	switch x := a.(type) {
	case []byte:
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y)
	case float64:
		y, ok := b.(float64)
		return ok && (x == y || x != x && y != y)
	case nil, bool, int64, uint64, string:
		return a == b
	}
	return false
}

// convert returns n as a value of type t.
func convert(n *node, t arrow.DataType) (*node, error) {
	if arrow.TypeEqual(n.t, t) {
		return n, nil
	}
	if n.isNull() {
		return nullOf(t, n.src), nil
	}
	return fold(&node{op: OpCast, t: t, args: []*node{n}, src: n.src}), nil
}
