package sqltext

import "strconv"

// cursor is a position in the tokens of a text, with what all rules of the grammar use.
type cursor struct {
	tokens []token
	at     int
	depth  int
}

func (c *cursor) peek() token { return c.tokens[c.at] }

// ahead returns the token after n others.
func (c *cursor) ahead(n int) token { return c.tokens[min(c.at+n, len(c.tokens)-1)] }

func (c *cursor) next() token {
	t := c.tokens[c.at]
	if t.kind != endToken {
		c.at++
	}
	return t
}

// is reports whether the token is the word or symbol.
func (t token) is(key string) bool {
	return (t.kind == wordToken || t.kind == symbolToken) && t.key == key
}

// on reports whether the next tokens are the words and symbols.
func (c *cursor) on(keys ...string) bool {
	for i, k := range keys {
		if !c.ahead(i).is(k) {
			return false
		}
	}
	return true
}

// accept skips the words and symbols if they are next.
func (c *cursor) accept(keys ...string) bool {
	if !c.on(keys...) {
		return false
	}
	c.at += len(keys)
	return true
}

// expect skips a word or symbol, or returns an error; after says where it belongs.
func (c *cursor) expect(key, after string) error {
	if c.accept(key) {
		return nil
	}
	what := "\"" + key + "\""
	if after != "" {
		what += " " + after
	}
	return c.expected(what)
}

// expected returns the error of a token that is something else.
func (c *cursor) expected(what string) error {
	return Errorf(c.peek().pos, "expected %s, found %s", what, c.peek().describe())
}

// enter counts a level of nesting; the caller defers leave.
func (c *cursor) enter() error {
	c.depth++
	if c.depth > maxDepth {
		return Errorf(c.peek().pos, "the statement is nested more than %d levels deep", maxDepth)
	}
	return nil
}

func (c *cursor) leave() { c.depth-- }

// name returns a name: a word that is not reserved, or a quoted one.
func (c *cursor) name(what string) (string, error) {
	t := c.peek()
	if t.kind == quotedToken || t.kind == wordToken && !reserved[t.key] {
		c.at++
		return t.text, nil
	}
	if t.kind == wordToken {
		return "", Errorf(t.pos, "expected %s, found the keyword %s; put names that are keywords in double quotes",
			what, t.describe())
	}
	return "", c.expected(what)
}

// alias returns the optional alias after AS or without it. It may be a string, as in DuckDB.
func (c *cursor) alias() (string, error) {
	if c.accept("as") {
		t := c.peek()
		if t.kind == wordToken || t.kind == stringToken && t.text != "" {
			// After AS every word is a name.
			c.at++
			return t.text, nil
		}
		return c.name("a name after AS")
	}
	if t := c.peek(); t.kind == quotedToken || t.kind == wordToken && !reserved[t.key] {
		c.at++
		return t.text, nil
	}
	return "", nil
}

// names returns a list of names in parentheses.
func (c *cursor) names(what string) ([]string, error) {
	if err := c.expect("(", "before the names of columns"); err != nil {
		return nil, err
	}
	var out []string
	for {
		n, err := c.name(what)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
		if !c.accept(",") {
			return out, c.expect(")", "after the names of columns")
		}
	}
}

// count returns the constant number of rows of LIMIT, OFFSET or a window frame.
func (c *cursor) count(of string) (int64, error) {
	t := c.peek()
	if t.kind != integerToken {
		return 0, c.expected("a number of rows after " + of)
	}
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil {
		return 0, Errorf(t.pos, "%s of %s is too large", of, t.text)
	}
	c.at++
	return n, nil
}
