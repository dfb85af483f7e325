package config

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Options specify what Load reads. The zero value reads what Dask and Millstream read by default.
type Options struct {
	// Paths are files and directories, in increasing precedence. Default: SearchPaths(Env).
	Paths []string
	// Env is the environment as name=value. Default: that of the process.
	Env []string
	// Defaults are used for keys that no other source sets, the first with the highest precedence. Default: those of
	// the package; an empty slice means none.
	Defaults []*Map
	// Unchecked disables the check of the UCX, RMM and millstream sections; Config.Check performs it later.
	Unchecked bool
	// Warn is called for deprecated keys, by Load and by Set. Default: the standard logger.
	Warn func(Warning)
}

// Config is a configuration. It is safe for concurrent use.
type Config struct {
	env      environ
	warn     func(Warning)
	warnings []Warning // of Load; never changes after it
	files    []string  // the same

	mu       sync.RWMutex
	root     *Map // replaced as a whole, never modified
	defaults *Map // all defaults so far; the same
}

// Load reads files and environment. It fails on a file that is not YAML, on conflicting variables, and on the first
// invalid key or value in the UCX, RMM and millstream sections; other sections are not checked.
//
// The result is independent of Default, which functions without a Config argument use: see SetDefault.
func Load(o Options) (*Config, error) {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Defaults == nil {
		o.Defaults = Defaults()
	}
	c := &Config{env: newEnviron(o.Env), warn: o.Warn, root: &Map{}, defaults: &Map{}}
	if c.warn == nil {
		c.warn = func(w Warning) { slog.Warn("configuration", "warning", w.String()) }
	}
	if o.Paths == nil {
		o.Paths = SearchPaths(o.Env)
		c.warnings = missingPaths(c.env)
	}
	layers, err := c.layers(o.Paths)
	if err != nil {
		return nil, err
	}
	collected, err := c.collect(layers)
	if err != nil {
		return nil, err
	}
	for _, d := range o.Defaults {
		update(c.root, d, oldWins)
		update(c.defaults, d, newWins)
	}
	update(c.root, collected, newWins)
	c.warnings = append(c.warnings, nativeWarnings(c.root)...)
	if !o.Unchecked {
		switch problems := c.Check(); len(problems) {
		case 0:
		case 1:
			return nil, problems[0]
		default:
			return nil, fmt.Errorf("%w (and %d more: `millstream config check` lists them)", problems[0],
				len(problems)-1)
		}
	}
	for _, w := range c.warnings {
		c.warn(w)
	}
	return c, nil
}

// layers reads every source separately, in increasing precedence.
func (c *Config) layers(paths []string) ([]*Map, error) {
	var layers []*Map
	for _, path := range configFiles(paths) {
		text, warning, err := readFile(path)
		if err != nil {
			return nil, err
		}
		if warning != nil {
			c.warnings = append(c.warnings, *warning)
			continue
		}
		c.files = append(c.files, path)
		m, err := ParseFile(path, text)
		if err != nil {
			return nil, err
		}
		if m != nil {
			layers = append(layers, m)
		}
	}
	env, warnings, err := collectEnv(c.env)
	if err != nil {
		return nil, err
	}
	c.warnings = append(c.warnings, warnings...)
	return append(layers, env), nil
}

// collect renames and merges the layers. A renamed key is reported once, and not at all if a source of higher
// precedence has the new one.
func (c *Config) collect(layers []*Map) (*Map, error) {
	result := &Map{}
	seen := map[string]bool{}
	for _, layer := range slices.Backward(layers) {
		found, err := rename(layer)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if seen[f.key] {
				continue
			}
			seen[f.key] = true
			if _, ok := lookup(result, f.replacement); !ok {
				c.warnings = append(c.warnings, *f.warning)
			}
		}
		update(result, layer, oldWins)
	}
	return result, nil
}

// Default returns the configuration of the process: that of the last SetDefault, otherwise the result of
// Load(Options{}) at the first call. Functions without a Config argument use it, such as millstream.Connect and
// millstream.Local; changes by Set apply to their later calls.
func Default() (*Config, error) {
	if c := chosen.Load(); c != nil {
		return c, nil
	}
	return loaded()
}

// SetDefault makes c the configuration of the process, for later calls of Default.
func SetDefault(c *Config) { chosen.Store(c) }

var (
	chosen atomic.Pointer[Config]
	loaded = sync.OnceValues(func() (*Config, error) { return Load(Options{}) })
)

// Warnings returns the warnings of Load.
func (c *Config) Warnings() []Warning { return slices.Clone(c.warnings) }

// Files returns the files that Load read, in increasing precedence.
func (c *Config) Files() []string { return slices.Clone(c.files) }

// Root returns all values. They do not change; a later Set creates a new Root.
func (c *Config) Root() *Map {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.root
}

// Entry returns the value of a dotted key with its source. Hyphens and underscores are equivalent. The Key of the entry
// is the last part as it was first written.
func (c *Config) Entry(key string) (Entry, bool) { return lookup(c.Root(), key) }

// Get returns the value of a dotted key, or otherwise if there is none. It returns nil for a key that is set to null.
func (c *Config) Get(key string, otherwise any) any {
	if e, ok := c.Entry(key); ok {
		return e.Value
	}
	return otherwise
}

// Set sets dotted keys, in the order of their names, and returns a function that reverts it; calling it again does
// nothing. Values are those of the package, Go's integers, floats, strings, durations, slices and maps with string
// keys. On an error nothing is set.
func (c *Config) Set(values map[string]any) (restore func(), err error) {
	return c.SetFrom(Source{Kind: KindSet}, values)
}

// SetFrom is Set for values of a user, such as those of a flag, which the source names.
func (c *Config) SetFrom(src Source, values map[string]any) (restore func(), err error) {
	var warnings []Warning
	var changes []change
	c.mu.Lock()
	root := c.root.clone()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value, err := fromGo(values[key], src)
		if err != nil {
			c.mu.Unlock()
			return nil, fmt.Errorf("config: %s: %w", key, err)
		}
		s := src
		replacement, w := renamed(key, src)
		if w != nil {
			warnings = append(warnings, *w)
		}
		if replacement != key {
			value, s = spelled(strings.ReplaceAll(key, "_", "-"), value, src)
		}
		change, err := assign(root, replacement, value, s)
		if err != nil {
			c.mu.Unlock()
			return nil, fmt.Errorf("config: %w", err)
		}
		changes = append(changes, change)
		warnings = append(warnings, nativeWarningsOf(replacement, Entry{Value: value, Source: s})...)
	}
	c.root = root
	c.mu.Unlock()
	for _, w := range warnings {
		c.warn(w)
	}
	var once sync.Once
	return func() { once.Do(func() { c.undo(changes) }) }, nil
}

// AddDefaults adds the defaults of a library, like Dask's update_defaults: they set unset keys, and replace earlier
// defaults.
func (c *Config) AddDefaults(d *Map) {
	c.mu.Lock()
	defer c.mu.Unlock()
	root, defaults := c.root.clone(), c.defaults.clone()
	updateDefaults(root, d, defaultsWin, c.defaults)
	update(defaults, d, newWins)
	c.root, c.defaults = root, defaults
}

func (c *Config) undo(changes []change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	root := c.root.clone()
	for _, change := range slices.Backward(changes) {
		change.undo(root)
	}
	c.root = root
}
