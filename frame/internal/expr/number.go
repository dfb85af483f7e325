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
