package doctor

import "strings"

// Python describes the interpreter that opens graphs of Python clients, and its sandbox.
type Python struct {
	// Path is the path of the interpreter, Distributed the release of the package distributed.
	Path, Version, Distributed string
	// Candidate is an interpreter with Dask that the scheduler does not find.
	Candidate string
	// Error is the reason if there is none, or if it cannot be started.
	Error error
	// Isolation lists the measures in force, such as "read-only file system" and "seccomp filter".
	Isolation []string
	// Missing lists the measures not in force, each with a reason and a fix.
	Missing []string
}

// checkPython reports the Python that opens the graphs of Python clients, and its sandbox.
func checkPython(h *Host) []Finding {
	p := h.Python
	switch {
	case p == nil:
		return one(Info, "Python: not checked", "", "")
	case p.Path == "":
		return one(Info, "no Python with Dask: a scheduler here supports Go clients, and only submit and map of Python",
			p.Error.Error(),
			pythonAdvice(p))
	case p.Error != nil:
		return one(Warn, "Python "+p.Path+" cannot be started for the graphs of Python clients", p.Error.Error(),
			"run "+p.Path+" -c 'import distributed'; for the sandbox see "+
				"docs/guide/security.md, Sandboxing")
	}
	title := "Python " + p.Version + " with distributed " + p.Distributed + " (" + p.Path + ")"
	if len(p.Missing) > 0 {
		return one(Warn, title+" opens the graphs of Python clients without a full sandbox", "In force: "+
			strings.Join(p.Isolation, ", ")+". Not in force: "+strings.Join(p.Missing, "; "),
			"see the hints in parentheses; a graph runs code of the client")
	}
	return one(OK, title+" opens the graphs of Python clients in a sandbox: "+strings.Join(p.Isolation, ", "), "", "")
}

// pythonAdvice returns how to select an interpreter.
func pythonAdvice(p *Python) string {
	if p.Candidate != "" {
		return "set MILLSTREAM_PYTHON=" + p.Candidate + ", which has Dask (`millstream demo` uses it)"
	}
	return "pip install distributed, or set an interpreter with --python or MILLSTREAM_PYTHON"
}
