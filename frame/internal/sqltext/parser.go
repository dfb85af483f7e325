package sqltext

// Limits on statements.
const (
	maxText   = 1 << 20
	maxTokens = 200_000
	// maxDepth bounds the nesting of parentheses, subqueries and operators, which the parser and all that walk the
	// tree follow by recursion.
	maxDepth = 200
	// maxChain bounds the operands of a chain such as 1+1+1…, whose tree leans to the left.
	maxChain = 500
)

// parser parses the grammar: statement.go, from.go, expression.go, primary.go, call.go.
type parser struct{ cursor }

// Parse returns the query of a text: one SELECT statement with an optional semicolon.
func Parse(text string) (*Query, error) {
	if len(text) > maxText {
		return nil, Errorf(Pos{}, "the statement has %d bytes; the limit is %d", len(text), maxText)
	}
	toks, err := tokens(text)
	if err != nil {
		return nil, err
	}
	p := &parser{cursor{tokens: toks}}
	if t := p.peek(); t.kind == wordToken && t.key != "select" && t.key != "with" && t.key != "from" &&
		t.key != "values" {
		return nil, Errorf(t.pos, "expected SELECT or WITH, found %s; other statements are not supported", t.describe())
	}
	q, err := p.query()
	if err != nil {
		return nil, err
	}
	p.accept(";")
	if t := p.peek(); t.kind != endToken {
		if t.kind == wordToken && (t.key == "select" || t.key == "with") {
			return nil, Errorf(t.pos, "the text has more than one statement; run them one by one")
		}
		return nil, p.expected("the end of the statement")
	}
	return q, nil
}
