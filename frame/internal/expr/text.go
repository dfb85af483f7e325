package expr

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
