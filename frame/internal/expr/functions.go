package expr

// Add returns e + v. Overflow of integers and decimals is an error.
func (e Expr) Add(v any) Expr { return Call(OpAdd, e, v) }

// Sub returns e - v. Overflow of integers and decimals is an error. The difference of two dates is a number of days.
func (e Expr) Sub(v any) Expr { return Call(OpSub, e, v) }

// Mul returns e * v. Overflow of integers and decimals is an error.
func (e Expr) Mul(v any) Expr { return Call(OpMul, e, v) }

// Div returns e / v as a float64, for integers too. IntDiv is the division of integers.
func (e Expr) Div(v any) Expr { return Call(OpDiv, e, v) }

// IntDiv returns e / v without the fraction, rounded toward zero. Division of integers by zero is null.
func (e Expr) IntDiv(v any) Expr { return Call(OpIntDiv, e, v) }

// Mod returns the remainder of e / v, which has the sign of e. The remainder of integers by zero is null.
func (e Expr) Mod(v any) Expr { return Call(OpMod, e, v) }

// Neg returns -e.
func (e Expr) Neg() Expr { return Call(OpNeg, e) }

// Abs returns the absolute value of e.
func (e Expr) Abs() Expr { return Call(OpAbs, e) }

// Round returns e rounded to a number of decimal digits, halves away from zero. Negative digits round to tens,
// hundreds and so on.
func (e Expr) Round(digits int) Expr { return Call(OpRound, e, digits) }

// Floor returns the largest whole number that is at most e.
func (e Expr) Floor() Expr { return Call(OpFloor, e) }

// Ceil returns the smallest whole number that is at least e.
func (e Expr) Ceil() Expr { return Call(OpCeil, e) }

// Sqrt returns the square root of e as a float64.
func (e Expr) Sqrt() Expr { return Call(OpSqrt, e) }

// Exp returns the exponential of e as a float64.
func (e Expr) Exp() Expr { return Call(OpExp, e) }

// Log returns the natural logarithm of e as a float64.
func (e Expr) Log() Expr { return Call(OpLog, e) }

// Pow returns e to the power of v as a float64.
func (e Expr) Pow(v any) Expr { return Call(OpPow, e, v) }

// Lower returns the text in lower case.
func (e Expr) Lower() Expr { return Call(OpLower, e) }

// Upper returns the text in upper case.
func (e Expr) Upper() Expr { return Call(OpUpper, e) }

// Length returns the number of characters of a text, or of bytes of a binary value, as an int64.
func (e Expr) Length() Expr { return Call(OpLength, e) }

// Substring returns length characters of a text from start, which is 1 for the first character. A negative start counts
// from the end. Both may be expressions.
func (e Expr) Substring(start, length any) Expr { return Call(OpSubstring, e, start, length) }

// Concat returns the text followed by the values as text. It is null if one of them is.
func (e Expr) Concat(values ...any) Expr { return Call(OpConcat, append([]any{e}, values...)...) }

// Contains returns an expression that is true if the text contains v.
func (e Expr) Contains(v any) Expr { return Call(OpContains, e, v) }

// StartsWith returns an expression that is true if the text starts with v.
func (e Expr) StartsWith(v any) Expr { return Call(OpStartsWith, e, v) }

// EndsWith returns an expression that is true if the text ends with v.
func (e Expr) EndsWith(v any) Expr { return Call(OpEndsWith, e, v) }

// Like returns an expression that is true if the text matches a pattern: % stands for any characters, _ for one, all
// others for themselves.
func (e Expr) Like(pattern any) Expr { return Call(OpLike, e, pattern) }

// Replace returns the text with all occurrences of old replaced by with.
func (e Expr) Replace(old, with any) Expr { return Call(OpReplace, e, old, with) }

// Trim returns the text without spaces at both ends.
func (e Expr) Trim() Expr { return Call(OpTrim, e) }

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
