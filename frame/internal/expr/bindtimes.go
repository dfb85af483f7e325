package expr

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// units of Truncate and DateDiff.
var units = []string{"year", "quarter", "month", "week", "day", "hour", "minute", "second"}

// timeOperand converts a constant text to a time, and rejects operands that are no times.
func (n *node) timeOperand(i int) error {
	a := n.args[i]
	if a.class() == text && a.isLiteral() {
		var err error
		if n.args[i], err = timeOfText(a); err != nil {
			return err
		}
		a = n.args[i]
	}
	if !a.class().isTime() && !a.isNull() {
		return n.mismatch("%v is %v, not a date or timestamp", a.src, a.t)
	}
	return nil
}

// bindPart is the rule of Year, Month and so on.
func bindPart(n *node) (*node, error) {
	if err := n.timeOperand(0); err != nil {
		return nil, err
	}
	n.t = int64Type
	if n.anyNull() {
		return nullOf(n.t, n.src), nil
	}
	return n, nil
}

func (n *node) checkUnit() error {
	if !slices.Contains(units, n.unit) {
		return n.mismatch("unknown unit %q; use %s", n.unit, strings.Join(units, ", "))
	}
	return nil
}

func bindTruncate(n *node) (*node, error) {
	if err := n.checkUnit(); err != nil {
		return nil, err
	}
	if err := n.timeOperand(0); err != nil {
		return nil, err
	}
	if n.anyNull() {
		return nullOf(date32Type, n.src), nil
	}
	n.t = n.args[0].t
	return n, nil
}

func bindAddTime(n *node) (*node, error) {
	if err := n.timeOperand(0); err != nil {
		return nil, err
	}
	a, by := n.args[0], n.args[1]
	if by.class() != integer && !by.isNull() {
		return nil, n.mismatch("%v is %v, not an integer", by.src, by.t)
	}
	if a.isNull() {
		return nullOf(date32Type, n.src), nil
	}
	n.t = a.t
	if by.isNull() {
		return nullOf(n.t, n.src), nil
	}
	return n, n.convertArgs(a.t, int64Type)
}

func bindDateDiff(n *node) (*node, error) {
	if err := n.checkUnit(); err != nil {
		return nil, err
	}
	for i := range n.args {
		if err := n.timeOperand(i); err != nil {
			return nil, err
		}
	}
	n.t = int64Type
	if n.anyNull() {
		return nullOf(n.t, n.src), nil
	}
	if n.args[0].class() == date && n.args[1].class() == date {
		return n, n.convertArgs(date32Type, date32Type)
	}
	t, err := n.common(n.args)
	if err != nil {
		return nil, err
	}
	return n, n.convertArgs(t, t)
}

// isUTC reports whether fields of a time are those of UTC.
func isUTC(t arrow.DataType) bool {
	ts, ok := t.(*arrow.TimestampType)
	return !ok || ts.TimeZone == "" || ts.TimeZone == "UTC" || ts.TimeZone == "Z" || ts.TimeZone == "+00:00"
}
