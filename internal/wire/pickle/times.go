package pickle

import (
	"fmt"
	"math"
	"time"
)

// NaiveTime is a datetime without a time zone: a date and a time of day. Time has them in UTC, which has no meaning.
type NaiveTime struct {
	time.Time
	// Fold is true for the second of two equal times, when clocks are set back.
	Fold bool
}

// Date is Python's date.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// TimeOfDay is Python's time.
type TimeOfDay struct {
	Hour, Minute, Second, Microsecond int
	// Zone is the time zone, nil if there is none.
	Zone *Timezone
	// Fold is true for the second of two equal times, when clocks are set back.
	Fold bool
}

// TimeDelta is a timedelta that is too long for a time.Duration, whose limit is 292 years. Only Days is negative.
type TimeDelta struct {
	Days, Seconds, Microseconds int64
}

// Timezone is Python's datetime.timezone, or a zone of zoneinfo.
type Timezone struct {
	// Name is the name in Python: "" for timezone(offset), the zone's key, such as "Europe/Berlin", for zoneinfo.
	Name string
	// Offset is the difference to UTC, positive in the east; 0 for zoneinfo.
	Offset time.Duration
	// Zoneinfo reports whether the zone is zoneinfo.ZoneInfo(Name).
	Zoneinfo bool
}

// Location returns the zone in Go. Zones of zoneinfo come from Go's database: it returns an error if it does not have
// the zone.
func (z Timezone) Location() (*time.Location, error) {
	switch {
	case z.Zoneinfo:
		return time.LoadLocation(z.Name)
	case z.Offset == 0 && z.Name == "":
		return time.UTC, nil
	}
	return time.FixedZone(z.Name, int(z.Offset/time.Second)), nil
}

func (t NaiveTime) pickleTree(int) (Value, error) {
	fold := byte(0)
	if t.Fold {
		fold = 1
	}
	raw, err := datetimeBytes(t.Time, fold)
	return Call(Global{"datetime", "datetime"}, raw), err
}

func (d Date) pickleTree(int) (Value, error) {
	// The constructor checks the fields.
	return Call(Global{"datetime", "date"}, int64(d.Year), int64(d.Month), int64(d.Day)), nil
}

func (t TimeOfDay) pickleTree(int) (Value, error) {
	hour, us := t.Hour, t.Microsecond
	raw := []byte{byte(hour), byte(t.Minute), byte(t.Second), byte(us >> 16), byte(us >> 8), byte(us)}
	if t.Fold {
		raw[0] |= 0x80
	}
	args := Tuple{raw}
	if t.Zone != nil {
		zone, _ := t.Zone.pickleTree(0)
		args = append(args, zone)
	}
	return &Object{Func: Global{"datetime", "time"}, Args: args}, nil
}

func (d TimeDelta) pickleTree(int) (Value, error) {
	return Call(Global{"datetime", "timedelta"}, d.Days, d.Seconds, d.Microseconds), nil
}

func (z Timezone) pickleTree(int) (Value, error) {
	if z.Zoneinfo {
		unpickle := Call(Global{"builtins", "getattr"}, Global{"zoneinfo", "ZoneInfo"}, "_unpickle")
		return Call(unpickle, z.Name, int64(1)), nil
	}
	return timezoneTree(z.Offset, z.Name), nil
}

// timezone decodes a tzinfo: of datetime, zoneinfo or pytz' UTC.
func timezone(v Value) (Timezone, bool) {
	o, ok := v.(*Object)
	if !ok || len(o.Steps) > 0 || o.Kind != Reduce {
		return Timezone{}, false
	}
	if g, ok := o.Class(); ok {
		switch {
		case g.Is("pytz", "_UTC") && len(o.Args) == 0:
			return Timezone{}, true
		case g.Is("zoneinfo", "ZoneInfo._unpickle"):
			return zoneinfo(o)
		case g.Is("datetime", "timezone") && len(o.Args) >= 1 && len(o.Args) <= 2:
			delta, ok := timedelta(o.Args[0])
			offset, fits := delta.duration()
			if !ok || !fits || offset%time.Second != 0 {
				return Timezone{}, false
			}
			z := Timezone{Offset: offset}
			if len(o.Args) == 2 {
				z.Name, ok = o.Args[1].(string)
			}
			return z, ok
		}
		return Timezone{}, false
	}
	// Protocols before 4 have no dotted names, and some later writers still use this form.
	if f, ok := o.Func.(*Object); ok && len(f.Args) == 2 {
		if g, _ := f.Class(); g.Is("builtins", "getattr") && f.Args[0] == Value(Global{"zoneinfo", "ZoneInfo"}) &&
			f.Args[1] == Value("_unpickle") {
			return zoneinfo(o)
		}
	}
	return Timezone{}, false
}

func zoneinfo(o *Object) (Timezone, bool) {
	if len(o.Args) == 0 {
		return Timezone{}, false
	}
	name, ok := o.Args[0].(string)
	return Timezone{Name: name, Zoneinfo: true}, ok && name != ""
}

func buildTimezone(_ *decoder, o *Object) (any, bool, error) {
	z, ok := timezone(o)
	return z, ok, nil
}

// timedelta decodes timedelta(days, seconds, microseconds).
func timedelta(v Value) (TimeDelta, bool) {
	o, ok := v.(*Object)
	if !ok || !o.call(3, 3) {
		return TimeDelta{}, false
	}
	if g, _ := o.Class(); !g.Is("datetime", "timedelta") {
		return TimeDelta{}, false
	}
	var n [3]int64
	for i, a := range o.Args {
		if n[i], ok = a.(int64); !ok {
			return TimeDelta{}, false
		}
	}
	t := TimeDelta{n[0], n[1], n[2]}
	const maxDays = 999_999_999
	if t.Days < -maxDays || t.Days > maxDays || t.Seconds < 0 || t.Seconds >= 24*60*60 || t.Microseconds < 0 ||
		t.Microseconds >= 1e6 {
		return TimeDelta{}, false
	}
	return t, true
}

func (d TimeDelta) duration() (time.Duration, bool) {
	const days = math.MaxInt64/int64(24*time.Hour) - 1
	if d.Days > days || d.Days < -days {
		return 0, false
	}
	return time.Duration(d.Days)*24*time.Hour + time.Duration(d.Seconds)*time.Second +
		time.Duration(d.Microseconds)*time.Microsecond, true
}

func buildTimeDelta(_ *decoder, o *Object) (any, bool, error) {
	t, ok := timedelta(o)
	if !ok {
		return nil, false, nil
	}
	if d, fits := t.duration(); fits {
		return d, true, nil
	}
	return t, true, nil
}

// fields decodes arguments that are all small ints.
func fields(args Tuple) ([]int, bool) {
	n := make([]int, len(args))
	for i, a := range args {
		x, ok := a.(int64)
		if !ok || x < 0 || x > 1e6 {
			return nil, false
		}
		n[i] = int(x)
	}
	return n, true
}

// onCalendar returns a time of fields that must be valid: Go would normalize them.
func onCalendar(year, month, day, hour, minute, second, us int, loc *time.Location) (time.Time, bool) {
	if year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
		second > 59 || us > 999_999 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, us*1000, loc)
	return t, time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
}

func buildDatetime(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(1, 2) {
		return nil, false, nil
	}
	b, ok := AsBytes(o.Args[0])
	if !ok || len(b) != 10 {
		return nil, false, nil
	}
	fold := b[2]&0x80 != 0
	loc := time.UTC
	naive := len(o.Args) == 1 || o.Args[1] == nil
	if !naive {
		z, ok := timezone(o.Args[1])
		if !ok {
			return nil, false, nil
		}
		var err error
		if loc, err = z.Location(); err != nil {
			return nil, false, nil // a zone that Go does not have: stay as it is
		}
	}
	t, ok := onCalendar(int(b[0])<<8|int(b[1]), int(b[2]&0x7f), int(b[3]), int(b[4]), int(b[5]), int(b[6]),
		int(b[7])<<16|int(b[8])<<8|int(b[9]), loc)
	if !ok {
		return nil, false, nil
	}
	if naive {
		return NaiveTime{t, fold}, true, nil
	}
	return unfold(t, fold), true, nil
}

// unfold chooses between the two times that a clock shows twice when it is set back: the first, or with fold the
// second.
func unfold(t time.Time, fold bool) time.Time {
	for _, d := range []time.Duration{-time.Hour, -30 * time.Minute, 30 * time.Minute, time.Hour} {
		other := t.Add(d)
		if other.Hour() == t.Hour() && other.Minute() == t.Minute() && (d > 0) == fold {
			return other
		}
	}
	return t
}

func buildDate(_ *decoder, o *Object) (any, bool, error) {
	var year, month, day int
	if o.call(3, 3) {
		n, ok := fields(o.Args)
		if !ok {
			return nil, false, nil
		}
		year, month, day = n[0], n[1], n[2]
	} else if o.call(1, 1) {
		b, ok := AsBytes(o.Args[0])
		if !ok || len(b) != 4 {
			return nil, false, nil
		}
		year, month, day = int(b[0])<<8|int(b[1]), int(b[2]), int(b[3])
	}
	t, ok := onCalendar(year, month, day, 0, 0, 0, 0, time.UTC)
	return Date{t.Year(), t.Month(), t.Day()}, ok, nil
}

func buildTime(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(1, 2) {
		return nil, false, nil
	}
	b, ok := AsBytes(o.Args[0])
	if !ok || len(b) != 6 {
		return nil, false, nil
	}
	t := TimeOfDay{Hour: int(b[0] & 0x7f), Minute: int(b[1]), Second: int(b[2]),
		Microsecond: int(b[3])<<16 | int(b[4])<<8 | int(b[5]), Fold: b[0]&0x80 != 0}
	if len(o.Args) == 2 && o.Args[1] != nil {
		z, ok := timezone(o.Args[1])
		if !ok {
			return nil, false, nil
		}
		t.Zone = &z
	}
	return t, t.Hour < 24 && t.Minute < 60 && t.Second < 60 && t.Microsecond < 1e6, nil
}

// buildTimestamp decodes pandas' Timestamp: a count since 1970, and its resolution.
func buildTimestamp(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(3, 4) {
		return nil, false, nil
	}
	n, ok := o.Args[0].(int64)
	if !ok {
		return nil, false, nil
	}
	reso := int64(10) // before pandas 2 there were only nanoseconds
	if len(o.Args) == 4 {
		if reso, ok = o.Args[3].(int64); !ok {
			return nil, false, nil
		}
	}
	var t time.Time
	switch reso { // numpy's numbers for its units
	case 7:
		if n < -1<<40 || n > 1<<40 {
			return nil, false, nil
		}
		t = time.Unix(n, 0)
	case 8:
		t = time.UnixMilli(n)
	case 9:
		t = time.UnixMicro(n)
	case 10:
		t = time.Unix(0, n)
	default:
		return nil, false, nil
	}
	if o.Args[2] == nil {
		return NaiveTime{Time: t.UTC()}, true, nil
	}
	z, ok := timezone(o.Args[2])
	if !ok {
		return nil, false, nil
	}
	loc, err := z.Location()
	if err != nil {
		return nil, false, nil // a zone that Go does not have
	}
	return t.In(loc), true, nil
}

// datetimeTree returns the aware datetime of a time: UTC, or the offset of its zone at that time.
func datetimeTree(t time.Time) (Value, error) {
	_, offset := t.Zone()
	raw, err := datetimeBytes(t, 0)
	if err != nil {
		return nil, err
	}
	return Call(Global{"datetime", "datetime"}, raw, timezoneTree(time.Duration(offset)*time.Second, "")), nil
}

// datetimeBytes returns the form in which Python's datetime pickles its fields.
func datetimeBytes(t time.Time, fold byte) ([]byte, error) {
	year := t.Year()
	if year < 1 || year > 9999 {
		return nil, fmt.Errorf("the year %d is beyond Python's datetime, which has 1 to 9999", year)
	}
	us := t.Nanosecond() / 1000
	return []byte{byte(year >> 8), byte(year), byte(t.Month()) | fold<<7, byte(t.Day()), byte(t.Hour()),
		byte(t.Minute()),
		byte(t.Second()), byte(us >> 16), byte(us >> 8), byte(us)}, nil
}

// timezoneTree returns datetime.timezone(offset) or, with a name, timezone(offset, name).
func timezoneTree(offset time.Duration, name string) Value {
	args := Tuple{timedeltaTree(offset)}
	if name != "" {
		args = append(args, name)
	}
	return &Object{Func: Global{"datetime", "timezone"}, Args: args}
}

// timedeltaTree returns a timedelta in Python's normal form: only the days are negative.
func timedeltaTree(d time.Duration) Value {
	us := int64(d / time.Microsecond)
	const perDay = 24 * 60 * 60 * 1_000_000
	days := us / perDay
	if us %= perDay; us < 0 {
		us += perDay
		days--
	}
	return Call(Global{"datetime", "timedelta"}, days, us/1_000_000, us%1_000_000)
}
