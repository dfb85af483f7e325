package mem

// adaptor is the common part of resources on top of another one.
type adaptor struct{ upstream Resource }

// Kind returns the kind of memory of the upstream resource.
func (a adaptor) Kind() Kind { return a.upstream.Kind() }

// Device returns the GPU ordinal of the upstream resource, or -1.
func (a adaptor) Device() int { return a.upstream.Device() }
