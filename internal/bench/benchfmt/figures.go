package benchfmt

// Figures is a [Sink] that keeps figures and rejects invalid ones.
type Figures []Figure

// Add adds a figure.
func (f *Figures) Add(x Figure) error {
	*f = append(*f, x)
	return x.Validate()
}

// Close does nothing.
func (f *Figures) Close() error { return nil }
