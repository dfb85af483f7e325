package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// parseJSON parses the output of the Python module json, which is a superset of JSON: Infinity (used in Dask's own
// defaults), NaN and integers of any size. Keys keep their order, and every value has the given source.
func parseJSON(text string, src Source) (any, error) {
	d := &jsonReader{text: text, src: src}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.at != len(text) {
		return nil, d.fail("text after the value")
	}
	return v, nil
}

type jsonReader struct {
	text string
	at   int
	src  Source
}

func (d *jsonReader) fail(what string) error {
	return fmt.Errorf("not JSON at byte %d: %s", d.at, what)
}

func (d *jsonReader) space() {
	for d.at < len(d.text) && strings.IndexByte(" \t\r\n", d.text[d.at]) >= 0 {
		d.at++
	}
}

func (d *jsonReader) take(token string) bool {
	d.space()
	if !strings.HasPrefix(d.text[d.at:], token) {
		return false
	}
	d.at += len(token)
	return true
}

var (
	jsonNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`)
	jsonString = regexp.MustCompile(`^"(?:[^"\\]|\\.)*"`)
	jsonWords  = []struct {
		word  string
		value any
	}{{"null", nil}, {"true", true}, {"false", false}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)},
		{"NaN", math.NaN()}}
)

func (d *jsonReader) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels", maxDepth)
	}
	for _, w := range jsonWords {
		if d.take(w.word) {
			return w.value, nil
		}
	}
	rest := d.text[d.at:]
	switch {
	case d.take("["):
		list := List{}
		for more := !d.take("]"); more; {
			v, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			if more = d.take(","); !more && !d.take("]") {
				return nil, d.fail("a list goes on with , or ]")
			}
		}
		return list, nil
	case d.take("{"):
		return d.object(depth)
	case strings.HasPrefix(rest, "\""):
		return d.string()
	}
	number := jsonNumber.FindString(rest)
	if number == "" {
		return nil, d.fail("no value")
	}
	d.at += len(number)
	if strings.ContainsAny(number, ".eE") {
		return parseFloat(number)
	}
	return integer(number, 10)
}

func (d *jsonReader) object(depth int) (any, error) {
	m := &Map{}
	for more := !d.take("}"); more; {
		d.space()
		key, err := d.string()
		if err != nil {
			return nil, err
		}
		if !d.take(":") {
			return nil, d.fail("no : after a key")
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		m.put(key, v, d.src)
		if more = d.take(","); !more && !d.take("}") {
			return nil, d.fail("an object goes on with , or }")
		}
	}
	return m, nil
}

func (d *jsonReader) string() (string, error) {
	quoted := jsonString.FindString(d.text[d.at:])
	var s string
	if quoted == "" || json.Unmarshal([]byte(quoted), &s) != nil {
		return "", d.fail("no string")
	}
	d.at += len(quoted)
	return s, nil
}

// writeJSON encodes values in order. Lists, tuples and sets are arrays.
func writeJSON(b *bytes.Buffer, v any) error {
	list := func(items []any) error {
		b.WriteByte('[')
		for i, item := range items {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	switch v := v.(type) {
	case *Map:
		b.WriteByte('{')
		for i, e := range v.entries {
			if i > 0 {
				b.WriteByte(',')
			}
			key, ok := e.Key.(string)
			if !ok {
				return fmt.Errorf("key %v is %s, which JSON cannot hold", e.Key, aType(e.Key))
			}
			if err := writeJSON(b, key); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeJSON(b, e.Value); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case List:
		return list(v)
	case Tuple:
		return list(v)
	case Set:
		return list(v)
	case *big.Int:
		b.WriteString(v.String())
		return nil
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		switch text { // in Python's spelling
		case "+Inf":
			text = "Infinity"
		case "-Inf":
			text = "-Infinity"
		}
		if !strings.ContainsAny(text, ".eIN") {
			text += ".0"
		}
		b.WriteString(text)
		return nil
	case nil, bool, int64, string:
		text, err := json.Marshal(v)
		b.Write(text)
		return err
	case Date:
		return writeJSON(b, v.String())
	case Time:
		return writeJSON(b, v.Format("2006-01-02T15:04:05.999999Z07:00"))
	}
	return fmt.Errorf("%s cannot be written as JSON", aType(v))
}
