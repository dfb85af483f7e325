package config

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"
)

// ValueError is returned for a value of the wrong type, or one that cannot be parsed.
type ValueError struct {
	// Key is the dotted key.
	Key string
	// Source is the source of the value.
	Source Source
	// Err describes the problem and valid values.
	Err error
}

// Error returns the source, the key and the problem.
func (e *ValueError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Source, e.Key, e.Err) }

// Unwrap returns Err.
func (e *ValueError) Unwrap() error { return e.Err }

// typed returns the value of one key. It returns otherwise for null and a missing key.
func typed[T any](c *Config, key string, otherwise T, read func(any) (T, error)) (T, error) {
	e, ok := c.Entry(key)
	if !ok || e.Value == nil {
		return otherwise, nil
	}
	v, err := read(e.Value)
	if err != nil {
		return otherwise, &ValueError{key, e.Source, err}
	}
	return v, nil
}

// Bool returns a boolean. It also accepts 0 and 1 and YAML's boolean words as text, so that a quoted "no" and
// DASK_…=off are false.
func (c *Config) Bool(key string, otherwise bool) (bool, error) {
	return typed(c, key, otherwise, toBool)
}

// Int returns an integer.
func (c *Config) Int(key string, otherwise int64) (int64, error) {
	return typed(c, key, otherwise, toInt)
}

// Float returns a number.
func (c *Config) Float(key string, otherwise float64) (float64, error) {
	return typed(c, key, otherwise, toFloat)
}

// String returns a text; numbers and booleans are formatted as in YAML.
func (c *Config) String(key, otherwise string) (string, error) {
	return typed(c, key, otherwise, toString)
}

// Strings returns a list of texts. A single text is a list of one.
func (c *Config) Strings(key string, otherwise []string) ([]string, error) {
	return typed(c, key, otherwise, func(v any) ([]string, error) {
		items := listOf(v)
		if items == nil {
			s, err := toString(v)
			return []string{s}, err
		}
		all := make([]string, len(items))
		for i, item := range items {
			s, err := toString(item)
			if err != nil {
				return nil, err
			}
			all[i] = s
		}
		return all, nil
	})
}

// Bytes returns a number of bytes, given as a number or in the form of ParseBytes.
func (c *Config) Bytes(key string, otherwise int64) (int64, error) {
	return typed(c, key, otherwise, toBytes)
}

// Duration returns a duration, given as a number of seconds or in the form of ParseDuration.
func (c *Config) Duration(key string, otherwise time.Duration) (time.Duration, error) {
	return typed(c, key, otherwise, func(v any) (time.Duration, error) {
		switch v := v.(type) {
		case string:
			return ParseDuration(v)
		case int64, *big.Int, float64:
			text, _ := toString(v)
			return ParseDuration(text)
		}
		return 0, fmt.Errorf("%s is not a time; write for example 30s, 500ms or 5 minutes", aType(v))
	})
}

func toBool(v any) (bool, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case int64:
		if v == 0 || v == 1 {
			return v == 1, nil
		}
	case string:
		if b, ok := boolWord(v); ok {
			return b, nil
		}
	}
	return false, fmt.Errorf("%s is not a boolean; write true or false", describe(v))
}

func toInt(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
	}
	return 0, fmt.Errorf("%s is not a whole number of 64 bits", describe(v))
}

func toFloat(v any) (float64, error) {
	switch v := v.(type) {
	case int64:
		return float64(v), nil
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, nil
	case float64:
		return v, nil
	}
	return 0, fmt.Errorf("%s is not a number", describe(v))
}

func toString(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int64, *big.Int, float64, Date, Time:
		return Format(v), nil
	}
	return "", fmt.Errorf("%s is not a string", aType(v))
}

func toBytes(v any) (int64, error) {
	switch v := v.(type) {
	case string:
		return ParseBytes(v)
	case int64:
		return v, nil
	case float64:
		if math.Abs(v) < math.MaxInt64 {
			return int64(v), nil
		}
	}
	return 0, fmt.Errorf("%s is not a number of bytes; write for example 500MB, 1GB or 1GiB", describe(v))
}

// describe formats a value for an error.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the text %q", clip(v))
	case *Map, List, Tuple, Set:
		return aType(v)
	}
	return Format(v)
}

func listOf(v any) []any {
	switch v := v.(type) {
	case List:
		return v
	case Tuple:
		return v
	case Set:
		return v
	}
	return nil
}

// fromGo converts Go values to the package's values.
func fromGo(v any, src Source) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64, float64, complex128, string, []byte, *big.Int, Date, Time:
		return v, nil
	case time.Duration:
		return v.Seconds(), nil
	case time.Time:
		return Time{Time: v}, nil
	case Switch:
		return v.value(), nil
	case *Map:
		return from(v, src), nil
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return r.Int(), nil
	case r.CanUint():
		if n := r.Uint(); n > math.MaxInt64 {
			return new(big.Int).SetUint64(n), nil
		}
		return int64(r.Uint()), nil
	case r.CanFloat():
		return r.Float(), nil
	}
	switch r.Kind() {
	case reflect.String:
		return r.String(), nil
	case reflect.Slice, reflect.Array:
		list := make(List, r.Len())
		for i := range list {
			item, err := fromGo(r.Index(i).Interface(), src)
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		return list, nil
	case reflect.Map:
		if r.Type().Key().Kind() != reflect.String {
			break
		}
		keys := r.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		m := &Map{}
		for _, k := range keys {
			item, err := fromGo(r.MapIndex(k).Interface(), src)
			if err != nil {
				return nil, err
			}
			m.put(k.String(), item, src)
		}
		return m, nil
	}
	return nil, fmt.Errorf("a value of type %T is not one of a configuration", v)
}
