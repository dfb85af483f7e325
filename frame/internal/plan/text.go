package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// list joins names, and omits those after the first dozen.
func list(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(", … (%d)", len(names))
	}
	return strings.Join(names, ", ")
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// String returns the aggregate as text.
func (a Agg) String() string {
	arg := a.Col
	if arg == "" {
		arg = "*"
	}
	if a.Param != 0 {
		arg += ", " + float(a.Param)
	}
	text := a.Func + "(" + arg + ")"
	if text != a.Name {
		text += " as " + a.Name
	}
	return text
}

// String returns the key as text.
func (k SortKey) String() string {
	text := k.Col
	if k.Descending {
		text += " desc"
	}
	if k.NullsFirst {
		text += " nulls first"
	}
	return text
}

// Size returns bytes as text.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
