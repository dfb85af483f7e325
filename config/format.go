package config

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Format returns a value on one line, in YAML syntax.
func Format(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return formatFloat(v)
	case complex128:
		return strconv.Quote(strings.ReplaceAll(fmt.Sprint(v), "i", "j"))
	case string:
		if !isPlain(v) {
			return strconv.Quote(v)
		}
		return v
	case []byte:
		return fmt.Sprintf("%q", v)
	case Date:
		return v.String()
	case Time:
		layout := "2006-01-02T15:04:05.999999Z07:00"
		if v.Naive {
			layout = "2006-01-02T15:04:05.999999"
		}
		return v.Format(layout)
	case *Map:
		parts := make([]string, 0, v.Len())
		for e := range v.All() {
			parts = append(parts, Format(e.Key)+": "+Format(e.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	items := listOf(v)
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = Format(item)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// formatFloat formats a number so that PyYAML parses it as one.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return ".nan"
	case math.IsInf(f, 1):
		return ".inf"
	case math.IsInf(f, -1):
		return "-.inf"
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	mantissa, exponent, has := strings.Cut(text, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if has {
		mantissa += "e" + exponent
	}
	return mantissa
}

// isPlain reports whether YAML parses a text as itself without quotes, also inside brackets.
func isPlain(text string) bool {
	return plainTag(text) == tagStr && text == strings.TrimSpace(text) &&
		!strings.ContainsAny(text[:1], "\"'&*#?|-<>=!%@`:") &&
		!strings.ContainsAny(text, "{}[],\n\t") && !strings.Contains(text, ": ") && !strings.Contains(text, " #") &&
		!strings.HasSuffix(text, ":")
}
