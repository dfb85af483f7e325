package ucxenv

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const prefix = "UCX_"

//go:embed known.txt
var knownText string

// span is the range of UCX versions that support a name; a zero end is open.
type span struct{ since, until version }

// version is a release of UCX without its patch level.
type version struct{ major, minor int }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

func (v version) String() string { return strconv.Itoa(v.major) + "." + strconv.Itoa(v.minor) }

// parseVersion parses "1.21" or "1.21.0"; anything else is the zero version.
func parseVersion(s string) version {
	major, rest, _ := strings.Cut(s, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil {
		return version{}
	}
	return version{a, b}
}

// known returns the built-in names with their prefix. The text is parsed once, at the first call.
var known = sync.OnceValue(func() map[string]span {
	names := make(map[string]span)
	for line := range strings.Lines(knownText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		group, rest, _ := strings.Cut(line, ":")
		group = strings.TrimPrefix(group, "*")
		for field := range strings.FieldsSeq(rest) {
			var s span
			if at := strings.IndexByte(field, '<'); at >= 0 {
				s.until = parseVersion(field[at+1:])
				field = field[:at]
			}
			if at := strings.IndexByte(field, '>'); at >= 0 {
				s.since = parseVersion(field[at+1:])
				field = field[:at]
			}
			names[prefix+group+field] = s
		}
	}
	// Read by getenv and not through a table.
	names[prefix+"CONFIG_DIR"] = span{}
	return names
})

// bystanders are set by environment modules and vendors' scripts to the location of UCX. UCX reads none of them.
var bystanders = []string{
	"UCX_HOME", "UCX_ROOT", "UCX_DIR", "UCX_PATH", "UCX_BASE", "UCX_PREFIX", "UCX_VERSION",
	"UCX_INSTALL_DIR", "UCX_LIB", "UCX_LIBRARY_PATH", "UCX_INCLUDE", "UCX_BIN",
}

func lintNames(env map[string]string, h Host) []Finding {
	var found []Finding
	loaded := parseVersion(h.Version)
	for name, value := range env {
		if slices.Contains(h.Options, name) {
			continue
		}
		f := Finding{Level: Warn, Var: name, Value: value}
		if upper := strings.ToUpper(name); upper != name {
			f.Problem = "UCX reads only names in capitals and ignores this one"
			f.Fix = "did you mean " + upper + "?"
			found = append(found, f)
			continue
		}
		s, ok := known()[name]
		switch {
		case ok && loaded == version{}:
			continue
		case ok && loaded.before(s.since):
			f.Problem = fmt.Sprintf("UCX %s does not know it and ignores it; it came with UCX %v", h.Version, s.since)
			f.Fix = "load a newer UCX or unset it"
		case ok && s.until != version{} && s.until.before(loaded):
			f.Problem = fmt.Sprintf("UCX %s does not know it any more and ignores it; UCX %v was the last one that did",
				h.Version, s.until)
			f.Fix = "unset it"
		case ok:
			continue
		case slices.Contains(bystanders, name):
			f.Level = Note
			f.Problem = "UCX does not read it and warns that it is unused"
			f.Fix = "harmless; UCX_WARN_UNUSED_ENV_VARS=n silences the warning"
		default:
			f.Problem = "UCX has no such variable and ignores it"
			if near := nearestName(name, h.Options); len(near) > 0 {
				f.Fix = "did you mean " + strings.Join(near, " or ") + "?"
			} else {
				f.Fix = "`ucx_info -c` lists those that exist"
			}
		}
		found = append(found, f)
	}
	return found
}

// CheckName checks one option by its name with prefix. Nil means that the library supports it; UCX itself accepts any
// name and ignores unknown ones.
func CheckName(name, value string, h Host) *Finding {
	found := lintNames(map[string]string{name: value}, h)
	if len(found) == 0 || found[0].Level == Note {
		return nil
	}
	return &found[0]
}

// nearestName compares without the prefix, which is correct and would make a short name look longer than it is.
func nearestName(name string, options []string) []string {
	var names []string
	for n := range known() {
		names = append(names, strings.TrimPrefix(n, prefix))
	}
	for _, o := range options {
		names = append(names, strings.TrimPrefix(o, prefix))
	}
	near := nearest(strings.TrimPrefix(name, prefix), names)
	for i := range near {
		near[i] = prefix + near[i]
	}
	return near
}
