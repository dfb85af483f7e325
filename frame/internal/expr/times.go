package expr

import (
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	millisPerDay   = secondsPerDay * 1000
	nanosPerSecond = 1_000_000_000
)

// unitsPerSecond returns the number of units of a timestamp in a second.
func unitsPerSecond(u arrow.TimeUnit) int64 { return nanosPerSecond / int64(u.Multiplier()) }

// unitsPerDay returns the number of units of a date or timestamp in a day.
func unitsPerDay(t arrow.DataType) int64 {
	switch t := t.(type) {
	case *arrow.Date32Type:
		return 1
	case *arrow.TimestampType:
		return unitsPerSecond(t.Unit) * secondsPerDay
	}
	return millisPerDay
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// civil returns the date of a number of days since 1970.
func civil(days int64) (year int64, month, day int32) {
	// Years that start on March 1 have the leap day at their end. An era has 400 of them.
	z := days + 719468
	era := floorDiv(z, 146097)
	doe := uint32(z - era*146097)
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int32(doy - (153*mp+2)/5 + 1)
	month = int32(mp) + 3
	year = int64(yoe) + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// daysOf returns the number of days since 1970 of a date.
func daysOf(year int64, month, day int32) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	doy := int64(153*(month-3)+2)/5 + int64(day) - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

func appendDate(b []byte, days int64) []byte {
	year, month, day := civil(days)
	if year < 0 {
		b, year = append(b, '-'), -year
	}
	b = appendPadded(b, year, 4)
	b = appendPadded(append(b, '-'), int64(month), 2)
	return appendPadded(append(b, '-'), int64(day), 2)
}

func appendPadded(b []byte, v int64, width int) []byte {
	for p := int64(math.Pow10(width - 1)); p > v && p > 1; p /= 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, v, 10)
}

// appendTimestamp writes "1995-12-31 23:59:59", with the digits of the fraction if it is not 0.
func appendTimestamp(b []byte, v int64, unit arrow.TimeUnit) []byte {
	perSecond := unitsPerSecond(unit)
	seconds := floorDiv(v, perSecond)
	fraction := v - seconds*perSecond
	days := floorDiv(seconds, secondsPerDay)
	clock := seconds - days*secondsPerDay
	b = append(appendDate(b, days), ' ')
	b = append(appendPadded(b, clock/3600, 2), ':')
	b = append(appendPadded(b, clock/60%60, 2), ':')
	b = appendPadded(b, clock%60, 2)
	if fraction != 0 {
		b = appendPadded(append(b, '.'), fraction*(nanosPerSecond/perSecond), 9)
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return b
}

// compileInt64 returns a date or timestamp as int64 in its unit.
func compileInt64(n *node) (source[int64], error) {
	if formOf(n.t) != formInt32 {
		return compile[int64](n)
	}
	a, err := compile[int32](n)
	if err != nil {
		return nil, err
	}
	if c, ok := constantOf(a); ok {
		return literal[int64]{value: int64(c)}, nil
	}
	return mapOp[int32, int64]{a, func(out []int64, a []int32) {
		for i, v := range a {
			out[i] = int64(v)
		}
	}}, nil
}

// local is a source of times of a zone, as if the clock of the zone were that of UTC.
func local(n *node) (source[int64], error) {
	a, err := compileInt64(n)
	if err != nil || isUTC(n.t) {
		return a, err
	}
	ts := n.t.(*arrow.TimestampType)
	zone, err := ts.GetZone()
	if err != nil {
		return nil, n.mismatch("unknown time zone %q: %v", ts.TimeZone, err)
	}
	perSecond := unitsPerSecond(ts.Unit)
	return mapOp[int64, int64]{a, func(out, a []int64) {
		for i, v := range a {
			_, offset := time.Unix(floorDiv(v, perSecond), 0).In(zone).Zone()
			out[i] = v + int64(offset)*perSecond
		}
	}}, nil
}

// compilePart returns Year, Month and so on.
func compilePart(n *node) (any, error) {
	a, err := local(n.args[0])
	if err != nil {
		return nil, err
	}
	perDay := unitsPerDay(n.args[0].t)
	perSecond := max(perDay/secondsPerDay, 1)
	isDays := perDay == 1
	var f func(v int64) int64
	ofDay := func(g func(days int64) int64) func(int64) int64 {
		if isDays {
			return g
		}
		return func(v int64) int64 { return g(floorDiv(v, perDay)) }
	}
	ofClock := func(step, limit int64) func(int64) int64 {
		if isDays {
			return func(int64) int64 { return 0 }
		}
		return func(v int64) int64 {
			seconds := floorDiv(v, perSecond)
			return (seconds - floorDiv(seconds, secondsPerDay)*secondsPerDay) / step % limit
		}
	}
	switch n.op {
	case OpYear:
		f = ofDay(func(d int64) int64 { y, _, _ := civil(d); return y })
	case OpQuarter:
		f = ofDay(func(d int64) int64 { _, m, _ := civil(d); return int64(m+2) / 3 })
	case OpMonth:
		f = ofDay(func(d int64) int64 { _, m, _ := civil(d); return int64(m) })
	case OpDay:
		f = ofDay(func(d int64) int64 { _, _, dom := civil(d); return int64(dom) })
	case OpDayOfWeek:
		f = ofDay(func(d int64) int64 { return d + 4 - floorDiv(d+4, 7)*7 })
	case OpDayOfYear:
		f = ofDay(func(d int64) int64 { y, _, _ := civil(d); return d - daysOf(y, 1, 1) + 1 })
	case OpHour:
		f = ofClock(3600, 24)
	case OpMinute:
		f = ofClock(60, 60)
	default:
		f = ofClock(1, 60)
	}
	if n.op == OpYear {
		return mapOp[int64, int64]{a, years(perDay)}, nil
	}
	return mapOp[int64, int64]{a, func(out, a []int64) {
		for i, v := range a {
			out[i] = f(v)
		}
	}}, nil
}

// years returns the years of times. Neighbors are often of the same year, which needs no division.
func years(perDay int64) func(out, a []int64) {
	return func(out, a []int64) {
		var first, next, year int64 // the year from first to next
		for i, v := range a {
			if v < first || v >= next {
				year, _, _ = civil(floorDiv(v, perDay))
				first, next = daysOf(year, 1, 1)*perDay, daysOf(year+1, 1, 1)*perDay
			}
			out[i] = year
		}
	}
}

// compileTime returns an operation whose result is a date or timestamp.
func compileTime[T int32 | int64](n *node) (any, error) {
	perDay := unitsPerDay(n.t)
	switch n.op {
	case OpTruncate:
		a, err := compileInt64(n.args[0])
		if err != nil {
			return nil, err
		}
		f := truncation(n.unit, perDay)
		if zone, ok := zoneOf(n.t); ok {
			f = inZone(f, zone, perDay/secondsPerDay)
		}
		return castOp[int64, T]{n, a, func(v int64) (T, bool) { return inForm[T](f(v)) }, false}, nil
	case OpAddDays, OpAddMonths:
		a, err := compileInt64(n.args[0])
		if err != nil {
			return nil, err
		}
		by, err := compile[int64](n.args[1])
		if err != nil {
			return nil, err
		}
		return addTime[T]{n, a, by, perDay}, nil
	}
	return nil, nil
}

func zoneOf(t arrow.DataType) (*time.Location, bool) {
	if isUTC(t) {
		return nil, false
	}
	zone, err := t.(*arrow.TimestampType).GetZone()
	return zone, err == nil
}

// inZone applies f to the clock of a zone.
func inZone(f func(int64) int64, zone *time.Location, perSecond int64) func(int64) int64 {
	offset := func(v int64) int64 {
		_, o := time.Unix(floorDiv(v, perSecond), 0).In(zone).Zone()
		return int64(o) * perSecond
	}
	return func(v int64) int64 {
		r := f(v + offset(v))
		return r - offset(r-offset(r))
	}
}

func inForm[T int32 | int64](v int64) (T, bool) { return T(v), int64(T(v)) == v }

// truncation returns the start of a unit.
func truncation(unit string, perDay int64) func(v int64) int64 {
	day := func(v int64) int64 { return floorDiv(v, perDay) }
	switch unit {
	case "year":
		return func(v int64) int64 { y, _, _ := civil(day(v)); return daysOf(y, 1, 1) * perDay }
	case "quarter":
		return func(v int64) int64 { y, m, _ := civil(day(v)); return daysOf(y, (m-1)/3*3+1, 1) * perDay }
	case "month":
		return func(v int64) int64 {
			d := day(v)
			_, _, dom := civil(d)
			return (d - int64(dom) + 1) * perDay
		}
	case "week":
		return func(v int64) int64 { return (floorDiv(day(v)+3, 7)*7 - 3) * perDay }
	case "day":
		return func(v int64) int64 { return day(v) * perDay }
	}
	step := map[string]int64{"hour": 3600, "minute": 60, "second": 1}[unit] * (perDay / secondsPerDay)
	if step <= 1 { // dates, and timestamps in seconds
		return func(v int64) int64 { return v }
	}
	return func(v int64) int64 { return floorDiv(v, step) * step }
}

// addTime adds days or months.
type addTime[T int32 | int64] struct {
	n      *node
	a, by  source[int64]
	perDay int64
}

func (o addTime[T]) eval(x *exec) (vec[T], error) {
	va, err := o.a.eval(x)
	if err != nil {
		return vec[T]{}, err
	}
	by, constant := constantOf(o.by)
	var vb vec[int64]
	if !constant {
		if vb, err = o.by.eval(x); err != nil {
			return vec[T]{}, err
		}
	}
	out := alloc[T](x, x.n)
	valid := both(x, va.valid, vb.valid)
	for i, v := range va.v[:len(out)] {
		if !bitSet(valid, i) {
			continue
		}
		if !constant {
			by = vb.v[i]
		}
		r, ok := o.shift(v, by)
		t, fits := inForm[T](r)
		if !ok || !fits {
			return vec[T]{}, o.n.failf("overflow of %v: %s and %d", o.n.t, showValue(v, o.n.t), by)
		}
		out[i] = t
	}
	return vec[T]{out, valid}, nil
}

// shift returns v plus a number of days or months, and whether it does not overflow.
func (o addTime[T]) shift(v, by int64) (int64, bool) {
	if o.n.op == OpAddMonths {
		d := floorDiv(v, o.perDay)
		clock := v - d*o.perDay
		year, month, day := civil(d)
		if by < -1<<40 || by > 1<<40 {
			return 0, false
		}
		total := year*12 + int64(month) - 1 + by
		y := floorDiv(total, 12)
		m := int32(total-y*12) + 1
		day = min(day, int32(daysIn(int(y), time.Month(m))))
		r, over := mul64(daysOf(y, m, day), o.perDay).add(int128Of(clock))
		return int64(r.lo), r.fitsInt64() && !over
	}
	r, over := mul64(by, o.perDay).add(int128Of(v))
	return int64(r.lo), r.fitsInt64() && !over
}

// compileDays returns the difference of two dates.
func compileDays(n *node) (any, error) {
	a, err := compileInt64(n.args[0])
	if err != nil {
		return nil, err
	}
	b, err := compileInt64(n.args[1])
	if err != nil {
		return nil, err
	}
	return newIntOp(n, a, b), nil
}

func newIntOp(n *node, a, b source[int64]) intOp {
	o := &binaryOp[int64]{n: n, a: a, b: b}
	o.x, o.ca = constantOf(a)
	o.y, o.cb = constantOf(b)
	if o.ca && o.cb {
		o.ca = false
	}
	return intOp{o}
}

// compileDateDiff returns the difference of the numbers of the units in which two times are.
func compileDateDiff(n *node) (any, error) {
	perDay := unitsPerDay(n.args[0].t)
	var args [2]source[int64]
	for i, a := range n.args {
		s, err := local(a)
		if err != nil {
			return nil, err
		}
		f := unitNumber(n.unit, perDay)
		if c, ok := constantOf(s); ok {
			args[i] = literal[int64]{value: f(c)}
			continue
		}
		args[i] = mapOp[int64, int64]{s, func(out, a []int64) {
			for i, v := range a {
				out[i] = f(v)
			}
		}}
	}
	sub := *n
	sub.op = OpSub
	return newIntOp(&sub, args[0], args[1]), nil
}

// unitNumber returns the number of a unit that contains a time.
func unitNumber(unit string, perDay int64) func(v int64) int64 {
	day := func(v int64) int64 { return floorDiv(v, perDay) }
	switch unit {
	case "year":
		return func(v int64) int64 { y, _, _ := civil(day(v)); return y }
	case "quarter":
		return func(v int64) int64 { y, m, _ := civil(day(v)); return y*4 + int64(m-1)/3 }
	case "month":
		return func(v int64) int64 { y, m, _ := civil(day(v)); return y*12 + int64(m) }
	case "week":
		return func(v int64) int64 { return floorDiv(day(v)+3, 7) }
	case "day":
		return day
	}
	seconds := map[string]int64{"hour": 3600, "minute": 60, "second": 1}[unit]
	if perDay == 1 {
		return func(v int64) int64 { return v * (secondsPerDay / seconds) }
	}
	step := seconds * (perDay / secondsPerDay)
	return func(v int64) int64 { return floorDiv(v, step) }
}

// castTime converts dates and timestamps of different units.
func castTime(n, from *node, try bool) (any, error) {
	toDate := classOf(n.t) == date
	a, err := compileInt64(from)
	if toDate {
		a, err = local(from)
	}
	if err != nil {
		return nil, err
	}
	pf, pt := unitsPerDay(from.t), unitsPerDay(n.t)
	f := func(v int64) (int64, bool) {
		if toDate {
			return floorDiv(v, pf) * pt, true
		}
		if pt < pf {
			return floorDiv(v, pf/pt), true
		}
		r := mul64(v, pt/pf)
		return int64(r.lo), r.fitsInt64()
	}
	if formOf(n.t) == formInt32 {
		return castOp[int64, int32]{n, a, func(v int64) (int32, bool) {
			r, ok := f(v)
			t, fits := inForm[int32](r)
			return t, ok && fits
		}, try}, nil
	}
	return castOp[int64, int64]{n, a, f, try}, nil
}
