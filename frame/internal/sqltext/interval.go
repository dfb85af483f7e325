package sqltext

import (
	"math"
	"strconv"
	"strings"
)

// units are the units of intervals, in months, days or microseconds.
var units = map[string]Interval{
	"year": {Months: 12}, "quarter": {Months: 3}, "month": {Months: 1}, "decade": {Months: 120},
	"century": {Months: 1200}, "week": {Days: 7}, "day": {Days: 1}, "hour": {Micros: 3600e6}, "minute": {Micros: 60e6},
	"second": {Micros: 1e6}, "millisecond": {Micros: 1e3}, "microsecond": {Micros: 1},
}

// interval parses INTERVAL '3' MONTH, INTERVAL 3 MONTH and INTERVAL '3 months 2 days'.
func (p *parser) interval() (Expr, error) {
	out := &Interval{Pos: p.next().pos}
	t := p.next()
	words := strings.Fields(t.text)
	if n := p.peek(); len(words) == 1 && n.kind == wordToken && !reserved[n.key] {
		unit, ok := units[strings.TrimSuffix(n.key, "s")]
		if ok {
			p.at++
			// The precision of INTERVAL '90' DAY (3) limits the digits of the number, which are there already.
			if _, err := p.typeArguments(); err != nil {
				return nil, err
			}
			if p.on("to") {
				return nil, Unsupported(p.peek().pos, "an INTERVAL of several fields (TO)")
			}
			return out, out.add(t, words[0], unit)
		}
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return nil, Errorf(t.pos, "expected an interval such as '3' MONTH or '3 months', found %s", t.describe())
	}
	for i := 0; i < len(words); i += 2 {
		unit, ok := units[strings.TrimSuffix(strings.ToLower(words[i+1]), "s")]
		if !ok {
			return nil, Errorf(t.pos, "%q is no unit of an interval; use year, month, day, hour, minute or second",
				words[i+1])
		}
		if err := out.add(t, words[i], unit); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add adds n units.
func (i *Interval) add(t token, n string, unit Interval) error {
	// Far more than the range of dates, and sums of several cannot overflow.
	const most = math.MaxInt64 / 4
	v, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return Errorf(t.pos, "%q is no whole number of units of an interval", n)
	}
	u := max(unit.Months, unit.Days, unit.Micros)
	if v > most/u/1000 || v < -most/u/1000 {
		return Errorf(t.pos, "the interval %s is too long", n)
	}
	i.Months += v * unit.Months
	i.Days += v * unit.Days
	i.Micros += v * unit.Micros
	if max(i.Months, i.Days, i.Micros) > most || min(i.Months, i.Days, i.Micros) < -most {
		return Errorf(t.pos, "the interval is too long")
	}
	return nil
}
