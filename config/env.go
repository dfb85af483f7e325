package config

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
)

// inheritVar passes a parent's whole configuration to its children, as Dask's nanny does.
const inheritVar = "DASK_INTERNAL_INHERIT_CONFIG"

// collectEnv reads the DASK_* variables, in the order of the environment: DASK_FOO__BAR_BAZ=1 is foo.bar_baz.
func collectEnv(env environ) (*Map, []Warning, error) {
	root := &Map{}
	var warnings []Warning
	put := func(key string, value any, src Source) error {
		replacement, w := renamed(key, src)
		if w != nil {
			warnings = append(warnings, *w)
		}
		if replacement != key {
			value, src = spelled(key, value, src)
			for range renames { // a replacement may have been renamed too
				replacement, _ = renamed(replacement, src)
			}
		}
		_, err := assign(root, replacement, value, src)
		return err
	}
	if text, ok := env.values[inheritVar]; ok {
		inherited, err := Deserialize(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", inheritVar, err)
		}
		for e := range inherited.All() {
			if err := put(e.Key.(string), e.Value, e.Source); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, name := range env.names {
		rest, ok := strings.CutPrefix(name, "DASK_")
		if !ok {
			continue
		}
		src := Source{Kind: KindEnv, Name: name}
		value, err := Interpret(env.values[name])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := put(strings.ReplaceAll(strings.ToLower(rest), "__", "."), from(value, src), src); err != nil {
			return nil, nil, err
		}
	}
	return root, warnings, nil
}

// from sets the source of the maps inside a value.
func from(value any, src Source) any {
	m, ok := value.(*Map)
	if !ok {
		return value
	}
	c := &Map{}
	for e := range m.All() {
		c.put(e.Key, from(e.Value, src), src)
	}
	return c
}

// Serialize encodes a configuration as Dask passes it to a child process, in the variable DASK_INTERNAL_INHERIT_CONFIG.
// Values that JSON cannot represent are an error.
func Serialize(m *Map) (string, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, m); err != nil {
		return "", err
	}
	return base64.URLEncoding.EncodeToString(b.Bytes()), nil
}

// Deserialize decodes the output of Serialize, or of Dask's serialize.
func Deserialize(text string) (*Map, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("configuration of %d bytes exceeds the limit of %d", len(text), maxFile)
	}
	raw, err := base64.URLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(string(raw), Source{Kind: KindEnv, Name: inheritVar})
	if err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, fmt.Errorf("a configuration is a JSON object, not %s", aType(v))
	}
	return m, nil
}
