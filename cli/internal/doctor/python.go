package doctor

import "strings"

// Python is the interpreter that opens what Python clients send, and its sandbox.
type Python struct {
	// Path of the program; Distributed is the release of Dask's package there.
	Path, Version, Distributed string
	// Candidate is an interpreter with Dask that the scheduler would not find by itself.
	Candidate string
	// Error is why there is none, or why it cannot be started.
	Error error
	// Isolation is what is in force: "read-only file system", "seccomp filter".
	Isolation []string
	// Missing is what is not, each with a reason and a fix.
	Missing []string
}

// checkPython reports the Python that opens the graphs of Python clients, and its sandbox.
func checkPython(h *Host) []Finding {
	p := h.Python
	switch {
	case p == nil:
		return one(Info, "Python was not looked for", "", "")
	case p.Path == "":
		return one(Info, "no Python with Dask: a scheduler here serves Go clients, and Python's submit and map only",
			p.Error.Error(),
			pythonAdvice(p))
	case p.Error != nil:
		return one(Warn, "Python "+p.Path+" cannot be started for the graphs of Python clients", p.Error.Error(),
			"run it by hand: "+p.Path+" -c 'import distributed'; for the sandbox see "+
				"docs/guide/security.md, Sandboxing")
	}
	title := "Python " + p.Version + " with distributed " + p.Distributed + " (" + p.Path + ")"
	if len(p.Missing) > 0 {
		return one(Warn, title+" opens the graphs of Python clients without a full sandbox", "In force: "+
			strings.Join(p.Isolation, ", ")+". Not in force: "+strings.Join(p.Missing, "; "),
			"see the hints in brackets; a graph is a program of the client that runs there")
	}
	return one(OK, title+" opens the graphs of Python clients in a sandbox: "+strings.Join(p.Isolation, ", "), "", "")
}

// pythonAdvice names the interpreter to use, where one is known.
func pythonAdvice(p *Python) string {
	if p.Candidate != "" {
		return "MILLSTREAM_PYTHON=" + p.Candidate + ", which has Dask (`millstream demo` uses it)"
	}
	return "pip install distributed, or name an interpreter by --python or MILLSTREAM_PYTHON"
}
