package pickle

import (
	"fmt"
	"time"
)

// datetimeTree is the aware datetime of a time: UTC, or the offset that its zone has then.
func datetimeTree(t time.Time) (Value, error) {
	_, offset := t.Zone()
	raw, err := datetimeBytes(t, 0)
	if err != nil {
		return nil, err
	}
	return Call(Global{"datetime", "datetime"}, raw, timezoneTree(time.Duration(offset)*time.Second, "")), nil
}

// datetimeBytes is the form in which Python's datetime pickles its fields.
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

// timezoneTree is datetime.timezone(offset) or, with a name, timezone(offset, name).
func timezoneTree(offset time.Duration, name string) Value {
	args := Tuple{timedeltaTree(offset)}
	if name != "" {
		args = append(args, name)
	}
	return &Object{Func: Global{"datetime", "timezone"}, Args: args}
}

// timedeltaTree is a timedelta in Python's normal form: only the days are negative.
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
