package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings returns the settings of UCX and of GPU memory. In decreasing precedence they come from UCX_* variables,
// overrides (flags, Go structs), Set, DASK_* variables and files. Within one of these the newest spelling wins:
// distributed-ucxx over distributed.comm.ucx and distributed.rmm over ucx and rmm.
func (c *Config) Settings(o Overrides) (*Settings, error) {
	r := &resolver{
		root:     c.Root(),
		override: Source{Kind: KindFlag, Name: o.From},
		s:        &Settings{UCX: o.UCX, RMM: o.RMM, Env: map[string]string{}},
	}
	if o.From == "" {
		r.override.Name = "program"
	}
	for name, value := range c.env.values {
		if option, ok := strings.CutPrefix(name, "UCX_"); ok {
			r.s.Env[option] = value
		}
	}
	r.switches()
	r.environment()
	r.netDevices()
	r.pool()
	r.native(c.env)
	if r.err != nil {
		return nil, r.err
	}
	return r.s, r.translate()
}

// resolver resolves one Settings.
type resolver struct {
	root     *Map
	override Source // of what Overrides sets
	s        *Settings
	err      error // the first
}

func (r *resolver) fail(key string, src Source, err error) {
	if r.err == nil {
		r.err = &ValueError{key, src, err}
	}
}

// candidate is a value under one spelling.
type candidate struct {
	key   string
	value any
	src   Source
}

// find returns the winner among the spellings, newest first. Null is not a value.
func (r *resolver) find(keys []string) (candidate, bool) {
	var best candidate
	found := false
	var newest *candidate
	for _, key := range keys {
		e, ok := lookup(r.root, key)
		if !ok || isUnset(e.Value) {
			continue
		}
		c := candidate{key, e.Value, e.Source}
		if newest == nil {
			newest = &c
		}
		if !found || c.src.Kind > best.src.Kind || c.src.Kind == best.src.Kind && age(c.key) < age(best.key) {
			best, found = c, true
		}
	}
	// Processes with distributed-ucxx use the spelling only.
	if found && newest.key != best.key && !equal(newest.value, best.value) {
		r.s.Warnings = append(r.s.Warnings, Warning{
			Key: best.key, Replacement: replacement(best.key, best.src), Source: best.src,
			Text: fmt.Sprintf("%s takes precedence over %s (%s); Python's distributed-ucxx decides by the "+
				"spelling alone and uses the latter", best.key, newest.key, newest.src),
		})
	}
	return best, found
}

// in returns a key in all sections.
func in(key string) []string {
	keys := make([]string, len(ucxSections))
	for i, section := range ucxSections {
		keys[i] = section + "." + key
	}
	return keys
}

func (r *resolver) list(key string, value any, src Source) {
	r.s.Values = append(r.s.Values, Setting{key, value, src})
}

func (r *resolver) switches() {
	for _, key := range switchKeys {
		full, field := ucxSections[0]+"."+key, r.s.UCX.switchOf(key)
		if *field != Unset {
			r.list(full, field.value(), r.override)
			continue
		}
		c, ok := r.find(in(key))
		if !ok {
			r.list(full, nil, Source{})
			continue
		}
		on, err := toBool(c.value)
		if err != nil {
			r.fail(c.key, c.src, err)
			continue
		}
		*field = SwitchOf(on)
		r.list(full, on, c.src)
	}
}

// environment merges the maps of all spellings, key by key. In distributed-ucxx the newest map hides the others
// completely.
func (r *resolver) environment() {
	merged := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.s.UCX.Environment)) {
		name, value := optionName(key), r.s.UCX.Environment[key]
		if name == "NET_DEVICES" {
			if r.s.UCX.NetDevices == "" {
				r.s.UCX.NetDevices = value
			}
			continue
		}
		merged[name] = value
		r.list(ucxSections[0]+".environment."+key, value, r.override)
	}
	names := map[string][]string{}
	for _, section := range in("environment") {
		e, _ := lookup(r.root, section)
		m, _ := e.Value.(*Map) // Check reports other types
		for e := range m.All() {
			key, ok := e.Key.(string)
			if name := optionName(key); ok && name != "NET_DEVICES" {
				names[name] = append(names[name], section+"."+key)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if _, ok := merged[name]; ok {
			continue
		}
		c, ok := r.find(names[name])
		if !ok {
			continue
		}
		text, err := optionText(c.value)
		if err != nil {
			r.fail(c.key, c.src, err)
			continue
		}
		merged[name] = text
		r.list(ucxSections[0]+".environment."+strings.ToLower(strings.ReplaceAll(name, "_", "-")), text, c.src)
	}
	if len(merged) == 0 {
		merged = nil
	}
	r.s.UCX.Environment = merged
}

// optionText formats a value for UCX.
func optionText(v any) (string, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return "y", nil
		}
		return "n", nil
	case *Map:
		return "", errors.New("an option of UCX is a text, a number, a boolean or a list of them, not an object")
	}
	items := listOf(v)
	if items == nil {
		return toString(v)
	}
	parts := make([]string, len(items))
	for i, item := range items {
		text, err := toString(item)
		if err != nil {
			return "", err
		}
		parts[i] = text
	}
	return strings.Join(parts, ","), nil
}

func (r *resolver) netDevices() {
	full := ucxSections[0] + ".environment.net-devices"
	if r.s.UCX.NetDevices != "" {
		r.list(full, r.s.UCX.NetDevices, r.override)
		return
	}
	var keys []string
	for _, section := range ucxSections {
		keys = append(keys, section+".environment.net-devices", section+".environment.NET_DEVICES",
			section+".environment.UCX_NET_DEVICES", section+".net-devices")
	}
	c, ok := r.find(keys)
	if !ok {
		r.list(full, nil, Source{})
		return
	}
	text, err := optionText(c.value)
	if err != nil {
		r.fail(c.key, c.src, err)
		return
	}
	r.s.UCX.NetDevices = text
	r.list(full, text, c.src)
}

func (r *resolver) pool() {
	if r.s.RMM.PoolSize < 0 {
		r.fail(poolKeys[0], r.override, errors.New("negative pool size"))
		return
	}
	if r.s.RMM.PoolSize != 0 {
		r.list(poolKeys[0], r.s.RMM.PoolSize, r.override)
		return
	}
	c, ok := r.find(poolKeys)
	if !ok {
		r.list(poolKeys[0], nil, Source{})
		return
	}
	size, err := poolSize(c.value)
	if err != nil {
		r.fail(c.key, c.src, err)
		return
	}
	r.s.RMM.PoolSize = size
	r.list(poolKeys[0], size, c.src)
}

// poolSize parses a number of bytes that is not negative and not a fraction, which other tools interpret as a fraction
// of the GPU's memory.
func poolSize(v any) (int64, error) {
	size, err := toBytes(v)
	if err != nil {
		return 0, err
	}
	if f, ok := v.(float64); size < 0 || ok && f > 0 && f < 1 {
		return 0, fmt.Errorf("%s is not a number of bytes; write for example 500MB, 1GB or 1GiB", describe(v))
	}
	return size, nil
}

// native reads settings that only Millstream has.
func (r *resolver) native(env environ) {
	const library = "millstream.ucx.library"
	c, ok := r.find([]string{library})
	variable, inEnv := env.values["MILLSTREAM_UCX_LIBRARY"]
	switch {
	case r.s.UCX.Library != "":
		r.list(library, r.s.UCX.Library, r.override)
	case inEnv && variable != "" && (!ok || c.src.Kind <= KindEnv):
		r.s.UCX.Library = variable
		r.list(library, variable, Source{Kind: KindEnv, Name: "MILLSTREAM_UCX_LIBRARY"})
	case ok:
		text, isText := c.value.(string)
		if !isText {
			r.fail(library, c.src, fmt.Errorf("%s is not a path", describe(c.value)))
			return
		}
		r.s.UCX.Library = text
		r.list(library, text, c.src)
	default:
		r.list(library, nil, Source{})
	}
	r.nativeSwitch("millstream.ucx.plain-transports", &r.s.UCX.PlainTransports)
	r.nativeSwitch("millstream.ucx.polling", &r.s.UCX.Polling)
}

// nativeSwitch reads a switch that only Millstream has.
func (r *resolver) nativeSwitch(key string, to *Switch) {
	if *to != Unset {
		r.list(key, to.value(), r.override)
		return
	}
	c, ok := r.find([]string{key})
	if !ok {
		r.list(key, nil, Source{})
		return
	}
	on, err := toBool(c.value)
	if err != nil {
		r.fail(key, c.src, err)
		return
	}
	*to = SwitchOf(on)
	r.list(key, on, c.src)
}

// translate sets the options, except those that UCX reads from its own variables.
func (r *resolver) translate() error {
	options, warnings, err := r.s.UCX.Translate()
	if err != nil {
		return r.locate(err)
	}
	if err := r.variableKeepsOut(); err != nil {
		return err
	}
	for i, w := range warnings {
		warnings[i].Source = r.sourceOf(w.Key)
	}
	r.s.Warnings = append(r.s.Warnings, warnings...)
	for name := range r.s.Env {
		delete(options, name)
	}
	r.s.Options = options
	tls := r.s.Effective("TLS")
	named := strings.Contains(tls, "cuda") && !strings.Contains(tls, "^cuda")
	r.s.CUDAContext = r.s.UCX.CreateCUDAContext == On || r.s.UCX.CreateCUDAContext == Unset && named
	return nil
}

// variableKeepsOut checks UCX_TLS, which takes precedence over all settings, against the switches that are off.
func (r *resolver) variableKeepsOut() error {
	tls, ok := r.s.Env["TLS"]
	if !ok {
		return nil
	}
	return r.locate(r.s.UCX.keepsOut(tls, "UCX_TLS"))
}

// locate adds the source of a conflicting setting to an error.
func (r *resolver) locate(err error) error {
	var need *needError
	var forbid *forbidError
	switch {
	case errors.As(err, &need):
		return fmt.Errorf("%s: %w", r.sourceOf(need.key), err)
	case errors.As(err, &forbid):
		return fmt.Errorf("%s: %w", r.sourceOf(forbid.key), err)
	}
	return err
}

func (r *resolver) sourceOf(key string) Source {
	key, _, _ = strings.Cut(key, " ")
	for _, v := range r.s.Values {
		if v.Key == key {
			return v.Source
		}
	}
	return Source{}
}
