package expr

// Year returns the year of a date or time as an int64.
func (e Expr) Year() Expr { return Call(OpYear, e) }

// Month returns the month of a date or time, 1 to 12, as an int64.
func (e Expr) Month() Expr { return Call(OpMonth, e) }

// Day returns the day of the month of a date or time, 1 to 31, as an int64.
func (e Expr) Day() Expr { return Call(OpDay, e) }

// Hour returns the hour of a time, 0 to 23, as an int64.
func (e Expr) Hour() Expr { return Call(OpHour, e) }

// Minute returns the minute of a time, 0 to 59, as an int64.
func (e Expr) Minute() Expr { return Call(OpMinute, e) }

// Second returns the second of a time, 0 to 59, as an int64.
func (e Expr) Second() Expr { return Call(OpSecond, e) }

// DayOfWeek returns the day of the week of a date or time, 0 for Sunday to 6, as an int64.
func (e Expr) DayOfWeek() Expr { return Call(OpDayOfWeek, e) }

// Truncate returns the start of the unit that contains a date or time: "year", "quarter", "month", "week" (from
// Monday),
// "day", "hour", "minute" or "second".
func (e Expr) Truncate(unit string) Expr { return Expr{Op: OpTruncate, Name: unit, Args: []Expr{e}} }

// AddDays returns a date or time that is a number of days later.
func (e Expr) AddDays(days any) Expr { return Call(OpAddDays, e, days) }

// AddMonths returns a date or time that is a number of months later: on the same day of the month, or on its last day
// if the month is shorter.
func (e Expr) AddMonths(months any) Expr { return Call(OpAddMonths, e, months) }

// DateDiff returns the number of starts of a unit between from and e as an int64, negative if e is earlier. The units
// are those of Truncate.
func (e Expr) DateDiff(unit string, from any) Expr {
	return Expr{Op: OpDateDiff, Name: unit, Args: []Expr{e, operand(from)}}
}
