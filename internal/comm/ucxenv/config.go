package ucxenv

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Option is one line of UCX's configuration.
type Option struct {
	// Name is the variable with its prefix, for example "UCX_TLS".
	Name string
	// Value is the effective value as UCX prints it. UCX truncates it after 126 bytes.
	Value string
	// Doc is UCX's description, lines separated by newlines. Empty if it was not printed.
	Doc string
	// Syntax is UCX's description of the values. Empty if it was not printed.
	Syntax string
	// Inherits are the variables that set this one too, the nearest first.
	Inherits []string
	// Deprecated reports whether UCX ignores the variable; it has no value.
	Deprecated bool
	// Default reports whether UCX printed the line as a comment, because the variable has its default value
	// (UCS_CONFIG_PRINT_COMMENT_DEFAULT).
	Default bool
}

const (
	maxConfigLine = 1 << 16
	maxOptions    = 1 << 16
)

// ParseConfig parses the output of ucp_config_print and `ucx_info -c`, in any of their forms (with or without title and
// descriptions, defaults commented out), and returns the options in order.
func ParseConfig(r io.Reader) ([]Option, error) {
	var (
		out  []Option
		doc  []string // comment lines since the last option
		line int
	)
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxConfigLine)
	for scan.Scan() {
		line++
		text := strings.TrimSuffix(scan.Text(), "\r")
		if strings.TrimSpace(text) == "" {
			// An empty line ends the title; descriptions have "#" in theirs.
			doc = doc[:0]
			continue
		}
		comment, isComment := strings.CutPrefix(text, "#")
		var o Option
		if isComment {
			var ok bool
			if o, ok = parseOption(strings.TrimPrefix(comment, " ")); !ok || o.Deprecated ||
				!strings.Contains(o.Name, prefix) {
				doc = append(doc, strings.TrimPrefix(comment, " "))
				continue
			}
			o.Default = true
		} else {
			var ok bool
			if o, ok = parseOption(text); !ok {
				return nil, fmt.Errorf("ucx configuration: line %d: %.80q is neither NAME=value nor a comment", line,
					text)
			}
		}
		if len(out) == maxOptions {
			return nil, fmt.Errorf("ucx configuration: line %d: more than %d options", line, maxOptions)
		}
		o.describe(doc)
		doc = doc[:0]
		out = append(out, o)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("ucx configuration: line %d: %w", line+1, err)
	}
	return out, nil
}

// parseOption parses "NAME=value" or "NAME (deprecated)".
func parseOption(s string) (Option, bool) {
	if name, ok := strings.CutSuffix(s, " (deprecated)"); ok && isName(name) {
		return Option{Name: name, Deprecated: true}, true
	}
	name, value, ok := strings.Cut(s, "=")
	if !ok || !isName(name) {
		return Option{}, false
	}
	return Option{Name: name, Value: value}, true
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// describe sets the fields of an option from the comment lines before it.
func (o *Option) describe(lines []string) {
	var doc []string
	for _, l := range lines {
		if syntax, ok := strings.CutPrefix(l, "syntax:"); ok {
			o.Syntax = strings.TrimSpace(syntax)
			continue
		}
		if inherits, ok := strings.CutPrefix(l, "inherits:"); ok {
			for name := range strings.SplitSeq(inherits, ",") {
				if name = strings.TrimSpace(name); name != "" {
					o.Inherits = append(o.Inherits, name)
				}
			}
			continue
		}
		doc = append(doc, strings.TrimRight(l, " "))
	}
	o.Doc = strings.Trim(strings.Join(doc, "\n"), "\n")
}

// Names returns the names of the options, for Host.Options.
func Names(options []Option) []string {
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.Name
	}
	return names
}
