package config

import (
	"fmt"
	"strings"
)

// inForm returns a key in the form of the source: a variable's name for a variable.
func inForm(key string, src Source) string {
	if src.Kind != KindEnv || src.Name == inheritVar {
		return key
	}
	return "DASK_" + strings.ToUpper(strings.NewReplacer(".", "__", "-", "_").Replace(key))
}

// newSpelling returns the newest name of a setting of UCX or of the pool. It is empty for one that has no effect.
func newSpelling(key string) string {
	key = strings.ReplaceAll(key, "_", "-")
	for _, prefix := range []string{"distributed.comm.ucx.", "distributed.ucx.", "ucx."} {
		rest, ok := strings.CutPrefix(key, prefix)
		switch {
		case !ok:
		case rest == "net-devices":
			return "distributed-ucxx.environment.net-devices"
		case rest == "reuse-endpoints":
			return ""
		default:
			return "distributed-ucxx." + rest
		}
	}
	for _, prefix := range []string{"distributed.rmm.", "rmm."} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			return "distributed-ucxx.rmm." + rest
		}
	}
	return key
}

// replacement returns the key to use instead of a deprecated one, in the form of its source.
func replacement(key string, src Source) string {
	if key = newSpelling(key); key == "" {
		return ""
	}
	return inForm(key, src)
}

// nativeWarnings returns the replacements of all deprecated keys of UCX and the pool that are set, and of sections
// whose name is similar to one of Millstream's.
func nativeWarnings(root *Map) []Warning {
	warnings := oldSpellings(root)
	for e := range root.All() {
		name, _ := e.Key.(string)
		name = strings.ReplaceAll(name, "_", "-")
		for _, ours := range []string{"distributed-ucxx", "millstream"} {
			if d := distance(name, ours); d > 0 && d <= 2 {
				warnings = append(warnings, Warning{name, inForm(ours, e.Source), e.Source,
					fmt.Sprintf("section %s is not read by Millstream or Dask; is %s meant?", name,
						inForm(ours, e.Source))})
			}
		}
	}
	return warnings
}

// oldSpellings returns the deprecated keys that are set.
func oldSpellings(root *Map) []Warning {
	var warnings []Warning
	for _, s := range sections() {
		if e, ok := lookup(root, s.key); ok && age(s.key) != spellNew {
			warnings = append(warnings, deprecated(s.schema, s.key, e)...)
		}
	}
	return warnings
}

// nativeWarningsOf returns nativeWarnings of one key with its value.
func nativeWarningsOf(key string, e Entry) []Warning {
	root := &Map{}
	if _, err := assign(root, key, e.Value, e.Source); err != nil {
		return nil // cannot fail on an empty map
	}
	return nativeWarnings(root)
}

// deprecated warns about the keys below one that are set. Check reports unknown ones.
func deprecated(schema *Map, key string, e Entry) []Warning {
	if m, ok := e.Value.(*Map); ok {
		var all []Warning
		for child := range m.All() {
			if sub, ok := property(schema, child.Key); ok {
				all = append(all, deprecated(sub, key+"."+fmt.Sprint(child.Key), child)...)
			}
		}
		return all
	}
	if isUnset(e.Value) || e.Source.Kind == KindDefault {
		return nil
	}
	w := Warning{Key: key, Replacement: replacement(key, e.Source), Source: e.Source}
	if w.Replacement == "" {
		w.Text = key + " no longer has an effect; remove it"
	} else {
		w.Text = fmt.Sprintf("%s is deprecated; write %s instead", key, w.Replacement)
	}
	return []Warning{w}
}
